"""A runner as a process of its own, for the demo: it ticks when it is asked to, against ports that are
somewhere else.

Started by `Replicas`, to which the socket in its first argument leads. It holds nothing: what it
intends is in the store before it acts, so it may be killed at any moment.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from ebbtide.engine.ports import Ports
from ebbtide.engine.tick import tick
from ebbtide.errors import EbbtideError
from ebbtide.model.settings import Settings

PORTS = ("store", "cluster", "cloud", "metrics", "inbox", "notifier", "clock", "observer")


@dataclass(frozen=True, slots=True)
class TickAsked:
    settings: Settings
    owner: str
    deadline: float


@dataclass(frozen=True, slots=True)
class ReplicaCall:
    """Of a method of one of the ports; of `new_id` where the method is empty."""

    port: str
    method: str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicaAnswer:
    value: Any = None
    error: EbbtideError | None = None


@dataclass(frozen=True, slots=True)
class Ticked:
    error: EbbtideError | None = None


class Remote:
    """One port: every method is a call to the other side. Effects run on several threads, so one at a
    time."""

    def __init__(self, pipe: Connection, lock: threading.Lock, name: str) -> None:
        self._pipe = pipe
        self._lock = lock
        self._name = name

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return ask(self._pipe, self._lock, ReplicaCall(self._name, method, args, tuple(kwargs.items())))

        return call


def ask(pipe: Connection, lock: threading.Lock, call: ReplicaCall) -> Any:
    with lock:
        pipe.send(call)
        answer: ReplicaAnswer = pipe.recv()
    if answer.error is not None:
        raise answer.error
    return answer.value


def remote_ports(pipe: Connection) -> Ports:
    lock = threading.Lock()
    ports: dict[str, Any] = {name: Remote(pipe, lock, name) for name in PORTS}
    return Ports(**ports, new_id=lambda: ask(pipe, lock, ReplicaCall("new_id", "")), keeps_inputs=True)


def work(pipe: Connection) -> None:
    """Until the other side is gone."""
    ports = remote_ports(pipe)
    while True:
        try:
            asked: TickAsked = pipe.recv()
            try:
                tick(ports, asked.settings, asked.owner, asked.deadline)
                pipe.send(Ticked())
            except EbbtideError as error:
                pipe.send(Ticked(error))
        except (EOFError, BrokenPipeError):
            return


def main() -> None:
    work(Connection(int(sys.argv[1])))
