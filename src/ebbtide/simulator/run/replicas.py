"""For the demo, two runners as real processes: one ticks, the other stands by. When one is killed, the other
continues and a new one is started to stand by.

    with Replicas() as replicas:
        replicas.tick(ports, settings, "runner-1", deadline)

The ports are on this side, so faults are made here: a `RunnerCrashed` while a call is served kills the
process that made it, with SIGKILL, before it hears the answer.

A runner as a process of its own, for the demo: it ticks when it is asked to, against ports that are
somewhere else. Started by `Replicas`, to which the socket in its first argument leads. It holds nothing:
what it intends is in the store before it acts, so it may be killed at any moment.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from ebbtide.engine.ports import Ports
from ebbtide.engine.tick import tick
from ebbtide.errors import EbbtideError, Unanswered
from ebbtide.model.settings import Settings
from ebbtide.simulator.faults.ports import RunnerCrashed

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


START = "from ebbtide.simulator.run.replicas import main; main()"


class Replica:
    """One process, and the pipe to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-c", START, str(theirs.fileno())]
        # In a session of its own: Ctrl-C in the terminal is for the demo, which ends its runners itself.
        self._process = subprocess.Popen(
            command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        self._pipe = Connection(ours.detach())

    @property
    def pid(self) -> int:
        return self._process.pid

    def tick(self, ports: Ports, asked: TickAsked) -> None:
        try:
            self._pipe.send(asked)
            while isinstance(heard := self._pipe.recv(), ReplicaCall):
                self._pipe.send(served(ports, heard))
        except RunnerCrashed as crash:
            self.kill()
            moment = str(crash).removeprefix("crashed ").replace("cluster.evict", "it evicted a pod")
            raise RunnerCrashed(f"(process {self.pid}) was killed with SIGKILL {moment}") from None
        except (EOFError, OSError) as error:
            self.kill()
            raise RunnerCrashed(f"(process {self.pid}) is gone: {error}") from error
        if isinstance(heard, Ticked) and heard.error is not None:
            raise heard.error

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._pipe.close()


def served(ports: Ports, call: ReplicaCall) -> ReplicaAnswer:
    try:
        if not call.method:
            return ReplicaAnswer(ports.new_id())
        method = getattr(getattr(ports, call.port), call.method)
        return ReplicaAnswer(method(*call.args, **dict(call.kwargs)))
    except EbbtideError as error:
        return ReplicaAnswer(error=plain(error))


def plain(error: EbbtideError) -> EbbtideError:
    """Without its cause, which may be anything and need not survive the way."""
    try:
        return type(error)(str(error))
    except TypeError:
        return Unanswered(str(error))


class Replicas:
    def __init__(self) -> None:
        self._acts: Replica = Replica()
        self._stands_by: Replica = Replica()

    @property
    def pids(self) -> tuple[int, int]:
        """Of the one that acts and of the one that stands by."""
        return self._acts.pid, self._stands_by.pid

    def tick(self, ports: Ports, settings: Settings, owner: str, deadline: float) -> None:
        try:
            self._acts.tick(ports, TickAsked(settings, owner, deadline))
        except RunnerCrashed:
            self._acts, self._stands_by = self._stands_by, Replica()
            raise

    def __enter__(self) -> Replicas:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._acts.kill()
        self._stands_by.kill()

    def close(self, *_: Any) -> None:
        self.__exit__(None, None, None)
