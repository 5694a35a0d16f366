"""The network between the runners and everything else: a process of its own that forwards and disturbs.

    python -m tests.chaos_real.network '{"seed": 1, "targets": {"kube": "127.0.0.1:6443"}, "badness": 1}'

Prints a line with the port of each listener, then obeys: `calm` ends all disturbance, `count` prints what was
done so far. The bytes are not looked at: what is TLS or a database's own protocol is disturbed alike.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

CHUNK = 65536
ROOT = Path(__file__).parents[2]


class Fault(StrEnum):
    REFUSED = "refused"
    """The connection is reset as soon as it is there."""
    UNSENT = "unsent"
    """The request is swallowed and the connection reset: it was not carried out."""
    DELAYED = "delayed"
    STALLED = "stalled"
    """Longer than clients wait."""
    RESET = "reset"
    """The request was carried out; instead of its answer comes a reset."""
    CUT = "cut"
    """As above, with an orderly end of the connection."""
    HALVED = "halved"
    """A part of the answer comes, then the end."""


OF_CONNECTIONS = {Fault.REFUSED: 0.02}
OF_REQUESTS = {Fault.UNSENT: 0.004}
OF_ANSWERS = {
    Fault.DELAYED: 0.06,
    Fault.STALLED: 0.0015,
    Fault.RESET: 0.005,
    Fault.CUT: 0.005,
    Fault.HALVED: 0.006,
}
"""Chances for each connection, each piece of a request and each piece of an answer."""
DELAY_SECONDS = (0.01, 0.4)
STALL_SECONDS = (4.0, 9.0)


class Door:
    """One server's stand-in: where its clients connect."""

    def __init__(self, target: str, chance: random.Random, counts: Counter[str], badness: float) -> None:
        self._target = target
        self._badness = badness
        self._chance = chance
        self._counts = counts
        self.calm = False

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._drawn(OF_CONNECTIONS) is not None:
            _reset(writer)
            return
        try:
            inner_reader, inner_writer = await self._connect()
        except OSError:
            _reset(writer)
            return
        there = asyncio.create_task(self._carry(reader, inner_writer, OF_REQUESTS, writer))
        back = asyncio.create_task(self._carry(inner_reader, writer, OF_ANSWERS, writer))
        try:
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (there, back):
                task.cancel()
                with suppress(asyncio.CancelledError, OSError):
                    await task
            for end in (writer, inner_writer):
                with suppress(OSError, RuntimeError):
                    end.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._target.startswith("/"):
            return await asyncio.open_unix_connection(self._target)
        host, _, port = self._target.rpartition(":")
        return await asyncio.open_connection(host, int(port))

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        chances: Mapping[Fault, float],
        client: asyncio.StreamWriter,
    ) -> None:
        """Until one side ends, or a fault ends it."""
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                match self._drawn(chances):
                    case Fault.DELAYED:
                        await asyncio.sleep(self._chance.uniform(*DELAY_SECONDS))
                    case Fault.STALLED:
                        await asyncio.sleep(self._chance.uniform(*STALL_SECONDS))
                    case Fault.UNSENT | Fault.RESET:
                        _reset(client)
                        return
                    case Fault.CUT:
                        return
                    case Fault.HALVED:
                        writer.write(data[: self._chance.randrange(len(data))])
                        await writer.drain()
                        return
                writer.write(data)
                await writer.drain()

    def _drawn(self, chances: Mapping[Fault, float]) -> Fault | None:
        if self.calm:
            return None
        left = self._chance.random() / self._badness
        for fault, share in chances.items():
            left -= share
            if left < 0:
                self._counts[fault] += 1
                return fault
        return None


def _reset(writer: asyncio.StreamWriter) -> None:
    """Closed without waiting for what is unsent: the other side gets a reset."""
    raw = writer.get_extra_info("socket")
    with suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def serve(seed: int, targets: Mapping[str, str], badness: float) -> None:
    counts: Counter[str] = Counter()
    opened = {
        name: Door(target, random.Random(f"{seed}-{name}"), counts, badness)
        for name, target in targets.items()
    }
    servers = [await asyncio.start_server(door.meet, "127.0.0.1", 0) for door in opened.values()]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    print(json.dumps(dict(zip(opened, ports, strict=True))), flush=True)
    loop = asyncio.get_running_loop()
    while order := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        if order == "calm":
            for door in opened.values():
                door.calm = True
        print(json.dumps(counts), flush=True)


class Network:
    """The driver's side of it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.ports: dict[str, int] = json.loads(self._answer())

    def calm(self) -> None:
        self._ask("calm")

    def counts(self) -> Counter[str]:
        return self._ask("count")

    def _ask(self, order: str) -> Counter[str]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        return Counter(json.loads(self._answer()))

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the network of the tests has ended")
        return line


@contextmanager
def network(seed: int, opened: Mapping[str, str], badness: float = 1.0) -> Iterator[Network]:
    """`badness` times as bad as the chances above."""
    asked = json.dumps({"seed": seed, "targets": dict(opened), "badness": badness})
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos_real.network", asked],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Network(process)
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    asyncio.run(serve(**json.loads(sys.argv[1])))
