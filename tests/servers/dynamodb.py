"""DynamoDB Local on the machine's Java, kept in a cache; moto's server where that is not available.

`standing_in` says why moto stands in; the run's last lines repeat it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

VERSION = "3.1.0"
MAIN_CLASS = "software.amazon.dynamodb.services.local.main.ServerRunner"
FETCH_SECONDS = 100
START_SECONDS = 180
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ebbtide</groupId><artifactId>dynamodb-local</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>software.amazon.dynamodb</groupId><artifactId>DynamoDBLocal</artifactId>
    <version>{VERSION}</version>
  </dependency></dependencies>
</project>
"""
MOTO_ONE_CALL_AT_A_TIME = """
import sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
run_simple("127.0.0.1", int(sys.argv[1]), DomainDispatcherApplication(create_backend_app), threaded=False)
"""
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "eu-central-1",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Unavailable(Exception):
    """Why there is no DynamoDB Local here."""


@dataclass
class DynamoServer:
    port: int
    folder: Path
    command: list[str]
    standing_in: str = ""
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def url(self, state: str, logs: str, port: int = 0) -> str:
        return f"dynamodb://{state}/{logs}?region=eu-central-1&endpoint=http://127.0.0.1:{port or self.port}"

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self.command, cwd=self.folder, stdout=log, stderr=log)
        _await(self._process, self.folder, self.port)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Stopped and started on the same data, where that is durable. Not killed: DynamoDB Local then
        forgets the last transaction that it acknowledged, which the service itself never does."""
        self.stop()
        self.start()


@contextmanager
def dynamodb_server(durable: bool = False) -> Iterator[DynamoServer]:
    """In memory, or `durable` in a file, so it can be restarted."""
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="ebb-ddb-"))
    standing_in = ""
    try:
        command = _local_command(port, ["-dbPath", str(folder)] if durable else ["-inMemory"])
    except Unavailable as reason:
        standing_in = str(reason)
        command = [sys.executable, "-c", MOTO_ONE_CALL_AT_A_TIME, str(port)]
    server = DynamoServer(port, folder, command, standing_in)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _local_command(port: int, kept: list[str]) -> list[str]:
    java = shutil.which("java")
    if java is None:
        raise Unavailable("there is no Java on this machine")
    jars = _fetched()
    return [
        java,
        "-Xmx512m",
        f"-Djava.library.path={jars}",
        "-cp",
        f"{jars}/*",
        MAIN_CLASS,
        *kept,
        "-disableTelemetry",
        "-port",
        str(port),
    ]


def _fetched() -> Path:
    cache = Path(os.environ.get("EBBTIDE_CACHE") or Path.home() / ".cache" / "ebbtide")
    jars = cache / f"dynamodb-local-{VERSION}"
    if jars.is_dir():
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("DynamoDB Local is not in the cache and there is no Maven to fetch it")
    cache.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="fetch-", dir=cache))
    try:
        (work / "pom.xml").write_text(POM)
        goal = [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={work / 'jars'}"]
        subprocess.run(goal, cwd=work, check=True, capture_output=True, timeout=FETCH_SECONDS)
        (work / "jars").rename(jars)
    except (OSError, subprocess.SubprocessError) as error:
        if not jars.is_dir():
            raise Unavailable(f"DynamoDB Local could not be fetched ({type(error).__name__})") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return jars


def _await(process: subprocess.Popen[bytes], folder: Path, port: int) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
        except urllib.error.HTTPError as answered:
            answered.close()
            return
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"the server did not start: {(folder / 'log').read_text()[-2000:]}")
