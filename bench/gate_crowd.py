"""The clients of `bench.bench_gate_crowd`: a process with thousands of connections, told by standard input
what to do with them; one answer a line, JSON: how many connections there are of each kind.

    connect PORT COUNT HEX   opens them and sends these bytes
    creep SECONDS            a byte each second, until each was told off
    look                     which are held, and what the others got
    drain SECONDS            reads them all to their end
    vanish                   ends them so the other side hears nothing
    leave                    closes them
"""

from __future__ import annotations

import errno
import json
import selectors
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from ebbtide.gate.server import raise_file_limit

LOOPBACK = "127.0.0.1"
A_SOURCE = 10_000
"""Connections from one address: it has not many more ports."""
OTHER_FILES = 500
NO_PORT_YET = 24
"""IP_BIND_ADDRESS_NO_PORT: the port is chosen when it is known whom to connect to."""
RESET = (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN)
REPAIR = 19
"""TCP_REPAIR: a socket that is closed in this state says nothing to its peer."""


@dataclass
class Clients:
    number: int
    wires: dict[socket.socket, None] = field(default_factory=dict)
    said: dict[socket.socket, bytes] = field(default_factory=dict)
    ended: Counter[str] = field(default_factory=Counter)

    def connect(self, port: str, count: str, said: str) -> None:
        self.ended.clear()
        for number in range(int(count)):
            wire = socket.socket()
            wire.setsockopt(socket.IPPROTO_IP, NO_PORT_YET, 1)
            wire.bind((f"127.0.{self.number + 1}.{number // A_SOURCE + 1}", 0))
            wire.settimeout(60)
            self.wires[wire] = None
            try:
                wire.connect((LOOPBACK, int(port)))
                wire.send(bytes.fromhex(said))
            except ConnectionError:
                self._read(wire)  # refused already
            else:
                wire.setblocking(False)

    def look(self) -> None:
        for wire in list(self.wires):
            self._read(wire)

    def _read(self, wire: socket.socket) -> None:
        """To its end, or to what came so far."""
        try:
            while part := wire.recv(65536):
                self.said[wire] = self.said.get(wire, b"") + part
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno not in RESET:
                raise
        self._gone(wire)

    def _gone(self, wire: socket.socket) -> None:
        words = self.said.pop(wire, b"").split(b" ", 2)
        self.ended[words[1].decode() if len(words) > 1 else "reset"] += 1
        del self.wires[wire]
        wire.close()

    def drain(self, seconds: str) -> None:
        end = time.monotonic() + float(seconds)
        with selectors.DefaultSelector() as waits:
            for wire in self.wires:
                waits.register(wire, selectors.EVENT_READ)
            while self.wires and time.monotonic() < end:
                for key, _ in waits.select(1):
                    found = key.fileobj
                    assert isinstance(found, socket.socket)
                    waits.unregister(found)
                    self._read(found)
                    if found in self.wires:
                        waits.register(found, selectors.EVENT_READ)

    def creep(self, seconds: str) -> None:
        end = time.monotonic() + float(seconds)
        while self.wires and time.monotonic() < end:
            for wire in list(self.wires):
                with suppress(OSError):
                    wire.send(b"x")
                self._read(wire)
            time.sleep(1)

    def vanish(self) -> None:
        self.ended.clear()
        for wire in self.wires:
            try:
                wire.setsockopt(socket.IPPROTO_TCP, REPAIR, 1)
                self.ended["silent"] += 1
            except OSError:  # not allowed here: a reset is the next best
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.ended["reset"] += 1
            wire.close()
        self.wires.clear()

    def leave(self) -> None:
        for wire in self.wires:
            wire.close()
        self.wires.clear()

    def answer(self) -> dict[str, int]:
        found = Counter(self.ended)
        if self.wires:
            found["held"] = len(self.wires)
        return dict(found)


@dataclass
class Crowd:
    child: subprocess.Popen[str]

    def ask(self, command: str) -> dict[str, int]:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(f"{command}\n")
        self.child.stdin.flush()
        found: dict[str, int] = json.loads(self.child.stdout.readline())
        return found


@contextmanager
def crowds(connections: int, files: int) -> Iterator[list[Crowd]]:
    """As many processes as so many connections need."""
    count = -(-connections // max(1, files - OTHER_FILES))
    with ExitStack() as last:
        found = []
        for number in range(count):
            command = [sys.executable, "-m", "bench.gate_crowd", str(number)]
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            last.callback(child.wait, 30)
            last.callback(child.kill)
            found.append(Crowd(child))
        yield found


def main() -> None:
    raise_file_limit()
    clients = Clients(int(sys.argv[1]))
    for line in sys.stdin:
        command, *words = line.split()
        getattr(clients, command)(*words)
        print(json.dumps(clients.answer()), flush=True)


if __name__ == "__main__":
    main()
