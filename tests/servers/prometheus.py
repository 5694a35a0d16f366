"""A real Prometheus (Debian's package) that scrapes exporters which the test drives."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from tests.servers.control_plane import ensure_debian
from tests.servers.dynamodb import free_port
from tests.servers.processes import running

Page = Callable[[], tuple[int, str]]


@dataclass
class Exporters:
    """One page of metrics for each node, served as node exporters would."""

    port: int = 0
    pages: dict[str, Page] = field(default_factory=dict)
    started: float = field(default_factory=time.time)

    def use(self, node: str, cpu: float, cpus: int = 2) -> None:
        """From now on the node's CPUs are used by this share."""
        self.pages[node] = lambda: (200, self.text(node, 1 - cpu, cpus))

    def text(self, node: str, idle_share: float, cpus: int = 2, stamp: str = "") -> str:
        passed = time.time() - self.started
        lines = [
            f'node_cpu_seconds_total{{cpu="{n}",mode="{mode}"}} {passed * share}{stamp}'
            for n in range(cpus)
            for mode, share in (("idle", idle_share), ("user", 1 - idle_share))
        ]
        lines.append(f'node_uname_info{{nodename="{node}"}} 1')
        return "\n".join(lines) + "\n"


@contextmanager
def http_server(answer: Callable[[str], tuple[int, str]]) -> Iterator[int]:
    """A small server on loopback whose answers the test gives, by path (`PATCH /path`, `DELETE /path`)."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            asked = self.path if self.command in ("GET", "POST") else f"{self.command} {self.path}"
            code, text = answer(asked)
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # the client may have given up
                self.wfile.write(body)

        do_POST = do_PATCH = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextmanager
def exporters() -> Iterator[Exporters]:
    found = Exporters()

    def answer(path: str) -> tuple[int, str]:
        page = found.pages.get(path.strip("/"))
        return page() if page else (503, "")

    with http_server(answer) as port:
        found.port = port
        yield found


@contextmanager
def prometheus_server(scraped: Exporters, nodes: list[str]) -> Iterator[str]:
    """The address of a Prometheus that scrapes the page of each node every second."""
    binary = ensure_debian("prometheus", "prometheus")
    folder = Path(tempfile.mkdtemp(prefix="ebb-prom-"))
    targets = [
        {
            "targets": [f"127.0.0.1:{scraped.port}"],
            "labels": {"instance": f"10.0.0.{number}:9100", "__metrics_path__": f"/{node}"},
        }
        for number, node in enumerate(nodes)
    ]
    job = {"job_name": "node", "scrape_interval": "1s", "scrape_timeout": "1s", "static_configs": targets}
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump({"scrape_configs": [job]}))
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        binary,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--log.level=warn",
    ]

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False

    try:
        with running(command, folder / "prometheus.log", ready):
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)
