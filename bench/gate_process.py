"""A gate as a process of its own, as the benches of the gate start it: no store and no cluster; commands by
standard input, one answer a line.

    ready HOST PORT   a pod is ready there
    asleep            no pod is ready
    stats             JSON: held, open, CPU seconds, bytes of memory, and what was the gate's own part
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

from ebbtide.gate.house import House
from ebbtide.gate.keeper import Keeper
from ebbtide.gate.limits import Limits
from ebbtide.gate.metrics import GateMetrics
from ebbtide.gate.routes import Backends, Route, Routes
from ebbtide.gate.server import listening, raise_file_limit
from ebbtide.model.gate import Gate, GateProtocol, ServiceRef

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
        gate = Gate((service,), protocol=protocol, max_held=1_000_000)
        found[port] = [Route(f"id-{number}", f"web-{number}", service, "http", gate, hold_seconds)]
    return found


async def serve(ports: range, protocol: GateProtocol, hold_seconds: float) -> None:
    raise_file_limit()
    metrics, routes, backends = Timed(), Routes(), Backends()
    found = routes_for(ports, protocol, hold_seconds)
    routes.replace(found)

    async def wake(_: str) -> float:
        return 5.0

    limits = Limits(held=1_000_000, wakes_per_minute=1_000_000)
    keeper = Keeper(House(routes, backends, wake, limits=limits), metrics)
    loop = asyncio.get_running_loop()
    async with listening(keeper, LOOPBACK, ports):
        print("listening", flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command, *words = line.split()
            if command == "ready":
                address = (words[0], int(words[1]))
                backends.replace({(each[0].service, "http"): (address,) for each in found.values()})
            elif command == "asleep":
                backends.replace({})
            print(json.dumps(_stats(keeper, metrics)), flush=True)
    await keeper.close()


def _stats(keeper: Keeper, metrics: Timed) -> dict[str, Any]:
    own, metrics.own = sorted(metrics.own), []
    used = resource.getrusage(resource.RUSAGE_SELF)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
    return {
        "held": keeper.held,
        "open": keeper.open,
        "cpu": used.ru_utime + used.ru_stime,
        "resident": resident,
        "own": own,
    }


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
def gate_process(ports: range, protocol: GateProtocol, hold_seconds: float = 300.0) -> Iterator[Process]:
    command = [sys.executable, "-m", "bench.gate_process", "--ports", f"{ports[0]}-{ports[-1]}"]
    command += ["--protocol", protocol.value, "--hold-seconds", str(hold_seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            if child.stdout.readline().strip() != "listening":
                raise RuntimeError("the gate did not start")
            yield Process(child, ports)
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
    given = parser.parse_args()
    first, _, last = given.ports.partition("-")
    uvloop.run(serve(range(int(first), int(last) + 1), given.protocol, given.hold_seconds))


if __name__ == "__main__":
    main()
