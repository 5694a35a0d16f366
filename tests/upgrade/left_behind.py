"""What earlier versions left behind (`data/`), brought back into stores of every kind."""

from __future__ import annotations

import gzip
import json
import sqlite3
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from ebbtide.adapters.stores.sql import migrate
from ebbtide.adapters.stores.sql.engine import make_engine, parse

DATA = Path(__file__).parent / "data"
VERSIONS = Path(migrate.__file__).parent / "migrations" / "versions"
NAMES = sorted(folder.name for folder in DATA.iterdir())
STATE = ("pk", "rev", "lock_owner", "lock_until_epoch", "lock_token", "action_id", "nonce", "body")
LOG = ("cluster", "id", "at", "kind", "subject", "says", "data")


@dataclass(frozen=True)
class Scene:
    """An open operation, with the world around it."""

    cluster: str
    story: str
    now: float
    world: bytes


@dataclass(frozen=True)
class LeftBehind:
    name: str

    @cached_property
    def sql(self) -> str:
        return gzip.decompress((DATA / self.name / "store.sql.gz").read_bytes()).decode()

    @property
    def schema(self) -> str:
        return self.name.rpartition("-")[2]

    def restore(self, file: Path) -> str:
        """The database as it was, under its old schema; its URL."""
        database = sqlite3.connect(file)
        database.executescript(self.sql)
        database.close()
        return f"sqlite:///{file}"

    def rows(self, table: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
        database = sqlite3.connect(":memory:")
        database.executescript(self.sql)
        found = database.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1, 2").fetchall()
        database.close()
        return [dict(zip(columns, row, strict=True)) for row in found]

    def items(self) -> dict[str, dict[str, Any]]:
        """The records by cluster, under the attribute names that every store shares."""
        found = {}
        for row in self.rows("ebbtide_state", STATE):
            if row["pk"].startswith("cluster#"):
                item = json.loads(row["body"]) if row["body"] else {}
                item |= {"pk": row["pk"], "rev": row["rev"], "lockToken": row["lock_token"]}
                item |= {"lockOwner": row["lock_owner"], "lockUntilEpoch": row["lock_until_epoch"]}
                found[row["pk"].removeprefix("cluster#")] = item
        return found

    def scenes(self) -> list[Scene]:
        told = json.loads(gzip.decompress((DATA / self.name / "worlds.json.gz").read_bytes()))
        return [
            Scene(cluster, each["story"], each["now"], msgspec.json.encode(each["world"]))
            for cluster, each in told.items()
        ]

    def into_postgresql(self, url: str) -> None:
        """The same rows, as that version would have written them there."""
        engine = make_engine(parse(url))
        with engine.connect() as connection:
            for table, columns in (("ebbtide_state", STATE), ("ebbtide_log", LOG)):
                values = ", ".join(
                    f"CAST(:{name} AS JSON)" if name == "body" else f":{name}" for name in columns
                )
                insert = sa.text(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})")
                connection.execute(insert, self.rows(table, columns))
        engine.dispose()


def left_behind(name: str) -> LeftBehind:
    return LeftBehind(name)
