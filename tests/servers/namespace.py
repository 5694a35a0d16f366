"""A network of its own on this machine: what a test does to addresses, routes and filters in it stays there.

    with namespace() as net:
        net.run("ip", "addr")           a command in it
        with net.inside(): ...          this thread is in it; sockets stay where they were made

Only loopback is in it. A port of the outer loopback can be lent to it: `net.lend(port)`.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.servers.control_plane import Unavailable, ensure_debian
from tests.servers.processes import eventually

CLONE_NEWNET = 0x40000000
LOOPBACK = "127.0.0.1"
_libc = ctypes.CDLL(None, use_errno=True)


class KernelRefuses(Unavailable):
    """No package brings this: the kernel, or who runs it, allows none."""


@dataclass(frozen=True)
class Namespace:
    keeper: int
    """The process that keeps it."""

    @property
    def path(self) -> Path:
        return Path(f"/proc/{self.keeper}/ns/net")

    def command(self, *words: str) -> list[str]:
        return ["nsenter", f"--net={self.path}", *words]

    def run(self, *words: str) -> str:
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
        return done.stdout

    @contextmanager
    def inside(self) -> Iterator[None]:
        """For this thread, and the threads that it starts meanwhile."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(self.path, os.O_RDONLY)
        try:
            _enter(there)
            try:
                yield
            finally:
                _enter(home)
        finally:
            os.close(there)
            os.close(home)

    @contextmanager
    def lend(self, port: int) -> Iterator[None]:
        """A client that connects to this port of its loopback reaches that of the outer one."""
        with self.inside():
            listener = socket.create_server((LOOPBACK, port))
        threading.Thread(target=_serve, args=(listener, port), daemon=True).start()
        try:
            yield
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()


@contextmanager
def namespace() -> Iterator[Namespace]:
    """`KernelRefuses` where this machine makes none. It is gone with this process, however that ends."""
    ensure_debian("ip", "iproute2")
    command = ["unshare", "--net", "cat"]
    with ExitStack() as last:
        keeper = last.enter_context(
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        )
        last.callback(keeper.kill)
        found, outer = Namespace(keeper.pid), os.readlink("/proc/self/ns/net")

        def is_made() -> bool:
            if keeper.poll() is not None and keeper.stderr is not None:
                raise KernelRefuses(f"no network namespace: {keeper.stderr.read().decode().strip()}")
            with suppress(OSError):
                return os.readlink(found.path) != outer
            return False

        eventually(is_made, 60, "a network namespace")
        found.run("ip", "link", "set", "lo", "up")
        yield found


def _enter(handle: int) -> None:
    if _libc.setns(handle, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _serve(listener: socket.socket, port: int) -> None:
    with suppress(OSError):
        while True:
            inner, _ = listener.accept()
            outer = socket.create_connection((LOOPBACK, port))
            for pair in ((inner, outer), (outer, inner)):
                threading.Thread(target=_carry, args=pair, daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
    source.close()
