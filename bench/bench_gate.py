"""The gate against nginx as a proxy, in the same run: requests a second, CPU a request; then what a held
connection costs, and how soon it is passed on.

One process each of the gate and of nginx with one event loop each, in short turns, each of them first in
every other turn, so whatever else the machine does meets both; of the ratios of all turns the median counts.
The backend is another nginx that answers with a few bytes; the load is wrk's. Layer 4 is against nginx's
stream proxy, layer 7 against its HTTP proxy with connections to the backend kept open. What a gate passes on
is a pipe by then: at layer 7 only the first request of a connection that was held was read.
`python -m bench.bench_gate [--rounds N] [--seconds N] [--held N]`
"""

from __future__ import annotations

import argparse
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.gate_process import LOOPBACK, Given, Process, gate_process
from ebbtide.gate.server import raise_file_limit
from ebbtide.model.policy import GateProtocol
from tests.servers.control_plane import ensure_debian
from tests.unit.gate.house import free_ports

CONNECTIONS = 64
AIMS = {GateProtocol.TCP: 0.8, GateProtocol.HTTP: 0.6}
AIM_HELD_BYTES = 8 * 1024
AIM_OWN_SECONDS = 0.05
MOST_TOGETHER = 100
"""Of more that are released together the last ones wait for the first: that takes CPU, and no aim is set."""
TOGETHER = {1: 200, MOST_TOGETHER: 10, 1000: 3}
"""Released at once, and how often."""
REQUEST = b"GET /hello HTTP/1.1\r\nHost: web\r\nAccept: */*\r\nUser-Agent: bench\r\n\r\n"
CPU = Callable[[], float]

NGINX = """
load_module /usr/lib/nginx/modules/ngx_stream_module.so;
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 16000; }}
{body}
"""
BACKEND = """http {{
  access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port} backlog=4096; return 200 "hello from the backend\\n"; }}
}}"""
STREAM = "stream {{ server {{ listen 127.0.0.1:{port} backlog=4096; proxy_pass 127.0.0.1:{backend}; }} }}"
PROXY = """http {{
  access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream pods {{ server 127.0.0.1:{backend}; keepalive 128; keepalive_requests 1000000000; }}
  server {{ listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass http://pods; proxy_http_version 1.1; proxy_set_header Connection ""; }} }}
}}"""


@dataclass(frozen=True)
class Load:
    per_second: float
    cpu_micros: float
    """Of the proxy, for each request."""


@contextmanager
def nginx(body: str, **values: object) -> Iterator[int]:
    """A running nginx of one process; its process id."""
    with tempfile.TemporaryDirectory(prefix="ebb-nginx-") as folder:
        path = Path(folder) / "nginx.conf"
        path.write_text(NGINX.format(folder=folder, body=body.format(folder=folder, **values)))
        command = [ensure_debian("nginx", "nginx-light"), "-c", str(path), "-p", folder]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as child:
            try:
                _until_open(int(str(values["port"])))
                yield child.pid
            finally:
                child.terminate()
                child.wait(10)


def _until_open(port: int) -> None:
    end = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((LOOPBACK, port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def loaded(port: int, seconds: int, cpu: CPU, close: bool) -> Load:
    command = [ensure_debian("wrk", "wrk"), "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s"]
    command += ["-H", "Connection: close"] if close else []
    before = cpu()
    done = subprocess.run(
        [*command, f"http://{LOOPBACK}:{port}/"], capture_output=True, text=True, check=True
    )
    used = cpu() - before
    found = re.search(r"(\d+) requests in", done.stdout)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    assert found is not None, done.stdout
    assert rate is not None, done.stdout
    return Load(float(rate[1]), used / max(1, int(found[1])) * 1e6)


def cpu_of(pid: int) -> CPU:
    process = psutil.Process(pid)

    def used() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    return used


def compared(protocol: GateProtocol, rounds: int, seconds: int, close: bool) -> float:
    """Prints one line; the ratio of throughputs."""
    first = free_ports(4)
    backend, theirs, ours = first, first + 1, first + 2
    body = STREAM if protocol is GateProtocol.TCP else PROXY
    with ExitStack() as last:
        last.enter_context(nginx(BACKEND, port=backend))
        other = last.enter_context(nginx(body, port=theirs, backend=backend))
        gate = last.enter_context(gate_process(Given(range(ours, ours + 1), protocol)))
        gate.ask(f"ready {LOOPBACK} {backend}")
        sides = {theirs: cpu_of(other), ours: cpu_of(gate.child.pid)}
        pairs = []
        for number in range(rounds):
            order = (theirs, ours) if number % 2 else (ours, theirs)
            found = {port: loaded(port, seconds, sides[port], close) for port in order}
            pairs.append((found[theirs], found[ours]))
    ratio = statistics.median(mine.per_second / his.per_second for his, mine in pairs)
    cpu = statistics.median(mine.cpu_micros / his.cpu_micros for his, mine in pairs)
    his_rate, my_rate = (statistics.median(one[side].per_second for one in pairs) for side in (0, 1))
    his_cpu, my_cpu = (statistics.median(one[side].cpu_micros for one in pairs) for side in (0, 1))
    kind = "a connection a request" if close else "kept connections"
    name = "layer 4" if protocol is GateProtocol.TCP else "layer 7"
    print(
        f"{name}, {kind:22}: nginx {his_rate:8.0f}/s {his_cpu:6.1f} us; "
        f"gate {my_rate:8.0f}/s {my_cpu:6.1f} us; "
        f"throughput x{ratio:.2f}, CPU x{cpu:.2f}",
        flush=True,
    )
    return ratio


def clients(port: int, count: int) -> list[socket.socket]:
    found = []
    for _ in range(count):
        each = socket.create_connection((LOOPBACK, port), 20)
        each.sendall(REQUEST)
        found.append(each)
    return found


def held_bytes(gate: Process, count: int) -> float:
    """Memory of the gate for each connection that it holds. A first crowd warms its allocator up."""
    for each in clients(gate.port, 200):
        each.close()
    before = gate.until(0)["resident"]
    crowd = clients(gate.port, count)
    found = gate.until(count)["resident"]
    for each in crowd:
        each.close()
    gate.until(0)
    return float(found - before) / count


def own_parts(gate: Process, backend: int, count: int) -> tuple[list[float], float]:
    """Seconds from the first ready pod to the first byte passed on, of so many released together; and the
    CPU seconds of the gate until the last was answered, which is what they would take with a core for it."""
    gate.ask("asleep")
    crowd = clients(gate.port, count)
    gate.until(count)
    before = gate.ask("stats")["cpu"]
    gate.ask(f"ready {LOOPBACK} {backend}")
    for each in crowd:
        assert b"hello" in each.recv(4096)
    after = gate.ask("stats")
    for each in crowd:
        each.close()
    own: list[float] = after["own"]
    assert len(own) == count
    return own, after["cpu"] - before


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--held", type=int, default=5000)
    given = parser.parse_args()
    ensure_debian("nginx", "nginx-light")
    raise_file_limit()
    ok = True
    for protocol, aim in AIMS.items():
        ok = compared(protocol, given.rounds, given.seconds, close=False) >= aim and ok
        compared(protocol, given.rounds, given.seconds, close=True)
    print(f"aims for kept connections: layer 4 x{AIMS[GateProtocol.TCP]}, layer 7 x{AIMS[GateProtocol.HTTP]}")
    first = free_ports(2)
    for protocol in AIMS:
        with nginx(BACKEND, port=first), gate_process(Given(range(first + 1, first + 2), protocol)) as gate:
            each = held_bytes(gate, given.held)
            print(f"{given.held} held, {protocol}: {each / 1024:.2f} KiB each (aim: at most 8)", flush=True)
            ok = ok and each <= AIM_HELD_BYTES
            for count, times in TOGETHER.items():
                runs = [own_parts(gate, first, count) for _ in range(times)]
                parts = sorted(each for own, _ in runs for each in own)
                cpu = statistics.median(each for _, each in runs)
                middle, late = statistics.median(parts), parts[int(len(parts) * 0.99)]
                print(
                    f"{count:5} released together, {times} times, {protocol}: "
                    f"own part {middle * 1000:.1f} ms, p99 {late * 1000:.1f} ms; CPU {cpu * 1000:.1f} ms",
                    flush=True,
                )
                ok = ok and (count > MOST_TOGETHER or late <= AIM_OWN_SECONDS)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"CPU of all processes: {used.ru_utime + used.ru_stime:.0f} s")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
