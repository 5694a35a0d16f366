"""A gate as a process of its own, as the benches of the gate start it: no store and no cluster; commands by
standard input, one answer a line.

    ready HOST PORT [NUMBER]   a pod is ready there, of all Services or of this one too
    asleep                     no pod is ready
    stats                      JSON: held, open, refused by reason, CPU seconds, bytes of memory, and what
                               was the gate's own part
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbtide.gate.admission import Address, Backends, GateLimits, Route, Routes
from ebbtide.gate.keeper import House, Keeper
from ebbtide.gate.metrics import GateMetrics
from ebbtide.gate.server import listening, raise_file_limit
from ebbtide.model.policy import GateProtocol, ServiceRef, WakeOnRequest

LOOPBACK = "127.0.0.1"
PAGE_BYTES = resource.getpagesize()


class Timed(GateMetrics):
    """Keeps each of the gate's own parts, to tell their distribution exactly."""

    def __init__(self) -> None:
        super().__init__()
        self.own: list[float] = []

    def ours(self, policy: str, seconds: float) -> None:
        super().ours(policy, seconds)
        self.own.append(seconds)


def routes_for(ports: range, protocol: GateProtocol, hold_seconds: float) -> dict[int, list[Route]]:
    """Each port is a Service of a policy of its own."""
    found = {}
    for number, port in enumerate(ports):
        service = ServiceRef("default", f"web-{number}")
        gate = WakeOnRequest((service,), protocol=protocol, max_held=1_000_000)
        found[port] = [Route(f"id-{number}", f"web-{number}", service, "http", gate, hold_seconds)]
    return found


@dataclass(frozen=True)
class Given:
    """How the gate is set up."""

    ports: range
    protocol: GateProtocol = GateProtocol.TCP
    hold_seconds: float = 300.0
    held: int = 1_000_000
    head_seconds: float = 10.0

    @property
    def words(self) -> list[str]:
        found = ["--ports", f"{self.ports[0]}-{self.ports[-1]}", "--protocol", self.protocol.value]
        found += ["--hold-seconds", str(self.hold_seconds), "--held", str(self.held)]
        return [*found, "--head-seconds", str(self.head_seconds)]


async def serve(given: Given) -> None:
    raise_file_limit()
    metrics, routes, backends = Timed(), Routes(), Backends()
    found = routes_for(given.ports, given.protocol, given.hold_seconds)
    services = [each[0].service for each in found.values()]
    ready: dict[tuple[ServiceRef, str], tuple[Address, ...]] = {}
    routes.replace(found)

    async def wake(_: str) -> float:
        return 5.0

    limits = GateLimits(held=given.held, wakes_per_minute=1_000_000, head_seconds=given.head_seconds)
    keeper = Keeper(House(routes, backends, wake, limits=limits), metrics)
    loop = asyncio.get_running_loop()
    async with listening(keeper, LOOPBACK, given.ports):
        print("listening", flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command, *words = line.split()
            if command == "ready":
                host, port, *number = words
                for each in [services[int(number[0])]] if number else services:
                    ready[each, "http"] = ((host, int(port)),)
                backends.replace(ready)
            elif command == "asleep":
                ready.clear()
                backends.replace(ready)
            print(json.dumps(_stats(keeper, metrics)), flush=True)
    await keeper.close()


def _stats(keeper: Keeper, metrics: Timed) -> dict[str, Any]:
    own, metrics.own = sorted(metrics.own), []
    used = resource.getrusage(resource.RUSAGE_SELF)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
    return {
        "held": keeper.held,
        "open": keeper.open,
        "refused": _refused(metrics),
        "cpu": used.ru_utime + used.ru_stime,
        "resident": resident,
        "own": own,
    }


def _refused(metrics: GateMetrics) -> dict[str, float]:
    found: dict[str, float] = {}
    for family in metrics.registry.collect():
        for sample in family.samples:
            if sample.name == "ebbtide_gate_refused_total":
                found[sample.labels["reason"]] = found.get(sample.labels["reason"], 0) + sample.value
    return found


@dataclass
class Process:
    child: subprocess.Popen[str]
    ports: range

    @property
    def port(self) -> int:
        return self.ports[0]

    def ask(self, command: str) -> dict[str, Any]:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(f"{command}\n")
        self.child.stdin.flush()
        found: dict[str, Any] = json.loads(self.child.stdout.readline())
        return found

    def until(self, held: int, seconds: float = 60.0) -> dict[str, Any]:
        """Waits for so many held connections."""
        end = time.monotonic() + seconds
        while (found := self.ask("stats"))["held"] != held:
            if time.monotonic() > end:
                raise TimeoutError(f"{found['held']} connections are held, not {held}")
            time.sleep(0.05)
        return found


@contextmanager
def gate_process(given: Given) -> Iterator[Process]:
    command = [sys.executable, "-m", "bench.gate_process", *given.words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            if child.stdout.readline().strip() != "listening":
                raise RuntimeError("the gate did not start")
            yield Process(child, given.ports)
        finally:
            with suppress(BrokenPipeError):
                child.stdin.close()
            child.wait(30)


def main() -> None:
    import uvloop

    parser = argparse.ArgumentParser()
    parser.add_argument("--ports", required=True)
    parser.add_argument("--protocol", type=GateProtocol, default=GateProtocol.TCP)
    parser.add_argument("--hold-seconds", type=float, default=300.0)
    parser.add_argument("--held", type=int, default=1_000_000)
    parser.add_argument("--head-seconds", type=float, default=10.0)
    found = parser.parse_args()
    first, _, last = found.ports.partition("-")
    ports = range(int(first), int(last) + 1)
    uvloop.run(serve(Given(ports, found.protocol, found.hold_seconds, found.held, found.head_seconds)))


if __name__ == "__main__":
    main()
