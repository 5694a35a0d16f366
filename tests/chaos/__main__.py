"""Run the chaos for so many seconds, half of them on each database, and print what happened."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

from ebbtide.adapters.stores.dynamodb.tables import create_tables
from ebbtide.adapters.stores.sql.migrate import upgrade
from tests.chaos.drive import RunTotals, drive
from tests.servers.dynamodb import CREDENTIALS, dynamodb_server
from tests.servers.postgres import postgres_server


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=("both", "postgresql", "dynamodb"), default="both")
    arguments = parser.parse_args()
    os.environ.update(CREDENTIALS)  # before any process starts that starts others
    wanted = ("postgresql", "dynamodb") if arguments.database == "both" else (arguments.database,)
    total = RunTotals()
    for name in wanted:
        totals = on_postgresql if name == "postgresql" else on_dynamodb
        found = totals(arguments.seconds / len(wanted), arguments.seed)
        print(f"{name}: {found.told()}", flush=True)
        for violation in found.violations[:20]:
            print(f"  {violation}")
        total = total.plus(found)
    print(total.told())
    return 1 if total.violations or total.lost_writes else 0


def on_postgresql(seconds: float, seed: int) -> RunTotals:
    with folder() as place, postgres_server("max_connections=200") as server:
        server.run("CREATE DATABASE chaos")
        url = server.url("chaos")
        upgrade(url)
        return drive(url, server, seconds, seed, Path(place))


def on_dynamodb(seconds: float, seed: int) -> RunTotals:
    with folder() as place, dynamodb_server(durable=True) as server:
        if server.standing_in:
            print(f"dynamodb: not run, {server.standing_in}")
            return RunTotals()
        url = server.url("chaos-state", "chaos-logs")
        create_tables(url)
        return drive(url, server, seconds, seed, Path(place))


def folder() -> AbstractContextManager[str]:
    return tempfile.TemporaryDirectory(prefix="ebb-chaos-")


if __name__ == "__main__":
    sys.exit(main())
