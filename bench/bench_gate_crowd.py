"""Hostile clients and crowds: what they cost the gate, and whether others are served.

Slow heads, a body of 1 GB to a sleeper, 50,000 connections, a crowd that is held for longer than the kernel
waits before it asks after each, clients that vanish without a word, and clients that leave while held. One
gate with its default limit of held connections; the clients are other processes, since no process may have
that many files, from several addresses, since one has too few ports. Next to each trouble, requests to a
policy that is awake go through the same gate: all must be answered.
`python -m bench.bench_gate_crowd [--connections N] [--body MIB]`
"""

from __future__ import annotations

import argparse
import hashlib
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.bench_gate import BACKEND, nginx
from bench.gate_crowd import Crowd, crowds
from bench.gate_process import LOOPBACK, Given, Process, gate_process
from ebbtide.gate.admission import GateLimits
from ebbtide.gate.server import raise_file_limit
from ebbtide.model.policy import GateProtocol
from tests.unit.gate.house import free_ports

MIB = 2**20
MOST_MEMORY = 80 * MIB
"""10,000 held connections may cost 8 KiB each."""
CREEP = 4 * MIB
"""What a third flood may cost beyond the second: by then the allocator has what it keeps."""
SECONDS = 300
PATIENCE_SECONDS = 100
REQUEST = b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n"


@dataclass
class Scene:
    gate: Process
    backend: int
    base: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def asleep(self) -> int:
        return self.gate.ports[0]

    @property
    def awake(self) -> int:
        return self.gate.ports[1]

    def must(self, true: bool, what: str) -> None:
        if not true:
            self.wrong.append(what)

    def memory(self) -> int:
        found: int = self.gate.ask("stats")["resident"]
        return found - self.base

    def told(self, name: str, what: str, others: Others, memory: int) -> None:
        self.must(memory <= MOST_MEMORY, f"{name}: memory")
        self.must(others.served == others.asked > 0, f"{name}: others were not served")
        print(f"{name:34} {what:52} {memory / MIB:+7.1f} MiB   {others.served} of {others.asked}", flush=True)


@dataclass
class Others:
    """Requests to a policy that is awake, one after the other under another load."""

    port: int
    asked: int = 0
    served: int = 0

    def ask(self) -> None:
        self.asked += 1
        with socket.create_connection((LOOPBACK, self.port), SECONDS) as wire:
            wire.sendall(REQUEST)
            self.served += b"hello from the backend" in everything(wire)


@contextmanager
def others(scene: Scene) -> Iterator[Others]:
    found, stop = Others(scene.awake), threading.Event()

    def run() -> None:
        while not stop.wait(0.05):
            found.ask()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join(SECONDS)
        found.ask()


def everything(wire: socket.socket) -> bytes:
    parts = []
    while part := wire.recv(65536):
        parts.append(part)
    return b"".join(parts)


def slow_heads(scene: Scene, crowd: Crowd, count: int) -> None:
    """A byte every now and then, and never the end of the head."""
    with others(scene) as served:
        crowd.ask(f"connect {scene.asleep} {count} {b'GET / HTTP/1.1'.hex()}")
        scene.gate.until(count)
        memory = scene.memory()
        ends = crowd.ask(f"creep {SECONDS}")
        scene.gate.until(0)
    told, cut = ends.get("408", 0), ends.get("reset", 0)
    scene.must(told + cut == count, f"slow heads: {ends}")
    scene.told(f"{count} slow heads", f"{told} got 408, {cut} a reset", served, memory)


def huge_body(scene: Scene, mib: int) -> None:
    part, sent = bytes(range(256)) * 4096, hashlib.sha256()
    for _ in range(mib):
        sent.update(part)
    with socket.create_server((LOOPBACK, 0)) as pod, others(scene) as served:
        wire = socket.create_connection((LOOPBACK, scene.asleep), SECONDS)
        wire.settimeout(None)
        wire.sendall(b"POST /up HTTP/1.1\r\nHost: web\r\nContent-Length: %d\r\n\r\n" % (mib * MIB))
        sender = threading.Thread(target=_send, args=(wire, part, mib), daemon=True)
        sender.start()
        scene.gate.until(1)
        time.sleep(1)  # as much as the kernels take
        held = scene.memory()
        scene.gate.ask(f"ready {LOOPBACK} {pod.getsockname()[1]} 0")
        behind, _ = pod.accept()
        found, most = _received(behind, mib * MIB, scene)
        sender.join(SECONDS)
        behind.close()
        wire.close()
    scene.gate.ask("asleep")
    scene.gate.ask(f"ready {LOOPBACK} {scene.backend} 1")
    scene.must(found == sent.digest(), "huge body: not byte for byte")
    what = f"held ({held / MIB:+.1f} MiB), then passed on byte for byte"
    scene.told(f"a body of {mib} MiB to a sleeper", what, served, max(held, most))


def _send(wire: socket.socket, part: bytes, count: int) -> None:
    for _ in range(count):
        wire.sendall(part)


def _received(behind: socket.socket, size: int, scene: Scene) -> tuple[bytes, int]:
    """The digest of the body, and the most memory that was seen meanwhile."""
    found, head, most, got = hashlib.sha256(), b"", 0, 0
    while b"\r\n\r\n" not in head:
        head += behind.recv(65536)
    body = head.partition(b"\r\n\r\n")[2]
    looked = 0
    while True:
        found.update(body)
        got += len(body)
        if got >= size:
            return found.digest(), most
        if got - looked > 64 * MIB:
            looked, most = got, max(most, scene.memory())
        body = behind.recv(2**18)


def flood(scene: Scene, many: list[Crowd], count: int, limit: int, name: str) -> int:
    """More connections than the gate holds: the others are refused at once, and who is held is served."""
    before = scene.gate.ask("stats")["refused"].get("gate_full", 0)
    with others(scene) as served:
        for number, crowd in enumerate(many):
            share = (count + number) // len(many)
            crowd.ask(f"connect {scene.asleep} {share} {REQUEST.hex()}")
        _until_refused(scene.gate, before + count - limit)
        scene.gate.until(limit)
        memory = scene.memory()
        states: Counter[str] = sum((Counter(crowd.ask("look")) for crowd in many), Counter())
        scene.must(states["held"] == limit, f"{name}: {states}")
        scene.gate.ask(f"ready {LOOPBACK} {scene.backend} 0")
        ends: Counter[str] = sum((Counter(crowd.ask(f"drain {SECONDS}")) for crowd in many), Counter())
        stats = scene.gate.until(0)
    scene.gate.ask("asleep")
    scene.gate.ask(f"ready {LOOPBACK} {scene.backend} 1")
    scene.must(ends["200"] == limit, f"{name}: {ends}, {stats['open']} open at the gate")
    what = f"{ends['200']} served; refused: {states['503']} by 503, {states['reset']} by reset"
    memory = max(memory, scene.memory())
    scene.told(name, what, served, memory)
    return memory


def _until_refused(gate: Process, count: int) -> None:
    """The last ones may still be on their way to the gate."""
    end = time.monotonic() + SECONDS
    while (found := gate.ask("stats")["refused"].get("gate_full", 0)) < count:
        if time.monotonic() > end:
            raise TimeoutError(f"{found} connections were refused, not {count}")
        time.sleep(0.1)


def patience(scene: Scene, crowd: Crowd, count: int) -> None:
    """Held for so long that the kernel asks after each: who is there must not be taken for gone."""
    with others(scene) as served:
        crowd.ask(f"connect {scene.asleep} {count} {REQUEST.hex()}")
        scene.gate.until(count)
        time.sleep(PATIENCE_SECONDS)
        stats, memory = scene.gate.ask("stats"), scene.memory()
        scene.gate.ask(f"ready {LOOPBACK} {scene.backend} 0")
        ends = crowd.ask(f"drain {SECONDS}")
    scene.gate.ask("asleep")
    scene.gate.ask(f"ready {LOOPBACK} {scene.backend} 1")
    scene.must(stats["held"] == count and ends == {"200": count}, f"patience: {stats['held']} held, {ends}")
    scene.told(f"{count} held for {PATIENCE_SECONDS} s", f"{ends.get('200', 0)} served", served, memory)


def vanishing(scene: Scene, crowd: Crowd, count: int) -> None:
    """Gone without an end or a reset, as a machine that lost its network: seen by keepalive."""
    with others(scene) as served:
        crowd.ask(f"connect {scene.asleep} {count} {REQUEST.hex()}")
        scene.gate.until(count)
        memory = scene.memory()
        how = crowd.ask("vanish")
        scene.gate.until(0, SECONDS)
    what = f"{how.get('silent', 0)} without a word: their places were given back"
    scene.told(f"{count} half-open clients", what, served, memory)


def leaving(scene: Scene, crowd: Crowd, count: int) -> None:
    with others(scene) as served:
        crowd.ask(f"connect {scene.asleep} {count} {REQUEST.hex()}")
        scene.gate.until(count)
        memory = scene.memory()
        crowd.ask("leave")
        scene.gate.until(0)
    scene.told(f"{count} clients leave while held", "their places were given back", served, memory)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--connections", type=int, default=50_000)
    parser.add_argument("--body", type=int, default=1024, help="MiB")
    given = parser.parse_args()
    files = raise_file_limit()
    limit = min(GateLimits().held, files // 2, given.connections // 2)
    first = free_ports(3)
    ports = range(first + 1, first + 3)
    setup = Given(ports, GateProtocol.HTTP, held=limit, head_seconds=5.0, hold_seconds=900.0)
    few = min(2000, limit // 2)
    with nginx(BACKEND, port=first), gate_process(setup) as gate, crowds(given.connections, files) as many:
        gate.ask(f"ready {LOOPBACK} {first} 1")
        scene = Scene(gate, first)
        with others(scene) as warm:
            time.sleep(1)
        scene.must(warm.asked == warm.served, "the gate does not serve")
        scene.base = gate.ask("stats")["resident"]
        print(f"{'trouble':34} {'what became of it':52} {'memory':>11}   others served")
        slow_heads(scene, many[0], few)
        huge_body(scene, given.body)
        name = f"{given.connections} connections, limit {limit}"
        flood(scene, many, given.connections, limit, name)
        again = flood(scene, many, given.connections, limit, "the same again")
        thrice = flood(scene, many, given.connections, limit, "and again")
        scene.must(thrice <= again + CREEP, "memory grows with each flood")
        patience(scene, many[0], limit)
        vanishing(scene, many[0], few)
        leaving(scene, many[0], few)
        scene.must(scene.memory() <= again + CREEP, "memory grew")
        print(f"in the end, nobody held: {scene.memory() / MIB:+.1f} MiB")
    for each in scene.wrong:
        print(f"WRONG: {each}")
    return 1 if scene.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
