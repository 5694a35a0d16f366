"""One round of the idle loop over 10,000 policies, against reading the same rows plainly.

Plainly is: the two tables selected by the bare driver and each row turned into its value, which any program
that looks at all policies must do. The metrics have been read already. Of the policies 60 % sleep, 25 % are
idle and the rest are in use. Rounds are a minute apart on a clock of their own; every third of them also
writes that the idle ones were looked at, and those are in the median like any other. Where reading plainly
takes longer than the aim by itself, as on DynamoDB Local, that is said and the ratio alone is judged.
`python -m bench.bench_policies [--policies N] [--rounds N] [--store NAME]...`
"""

from __future__ import annotations

import argparse
import gc
import os
import sqlite3
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from ebbtide.adapters.stores.dynamodb.policy_table import SHARDS, Keys
from ebbtide.adapters.stores.dynamodb.store import DynamoStore
from ebbtide.adapters.stores.dynamodb.tables import create_tables, make_client, parse_tables
from ebbtide.adapters.stores.sql.migrate import upgrade
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.model.idle import IdleState, Phase, Rate, Remembered
from ebbtide.model.pod import Workload, WorkloadKind, WorkloadRef
from ebbtide.model.policy import Policy, Signal, SignalKind, Target, ZeroDefaults
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Reading
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimNotifier
from tests.servers.dynamodb import CREDENTIALS, dynamodb_server
from tests.servers.postgres import postgres_server

START = 1_800_000_000
AIM_SECONDS, AIM_RATIO = 1.0, 3.0
RATE = Rate(Decimal("0.02"), "EUR", "bench")
READ = ("SELECT body FROM scaling_policies ORDER BY name", "SELECT body FROM scaling_idle_state")


@dataclass
class Cluster:
    """Workloads in memory: what the cluster costs is not what is measured."""

    there: dict[WorkloadRef, Workload]

    def read(self, ref: WorkloadRef) -> Workload:
        return self.there[ref]

    def scale(self, seen: Workload, replicas: int, note: str) -> Workload:
        raise AssertionError(f"nothing is due, and yet {seen.ref} was to be scaled to {replicas}: {note}")

    def wait_ready(self, ref: WorkloadRef, until: float) -> Workload:
        raise AssertionError(f"nobody waits for {ref} until {until}")


@dataclass
class Known:
    clock: VirtualClock
    values: dict[str, float]

    def read_values(self, queries: Sequence[str]) -> Sequence[Reading]:
        at = int(self.clock.now())
        return [Reading(self.values[query], at) for query in queries]


def make(number: int) -> tuple[Policy, Phase, Workload]:
    ref = WorkloadRef(WorkloadKind.DEPLOYMENT, f"team-{number % 50}", f"app-{number}")
    phase = Phase.ZERO if number % 20 < 12 else Phase.IDLE if number % 20 < 17 else Phase.ACTIVE
    policy = Policy(
        id=str(uuid.UUID(int=number + 1)),
        name=f"app-{number:05d}",
        target=Target((ref,)),
        scale_to_zero=True,
        signals=(Signal(SignalKind.PROMQL_RATE, f'rate(requests{{app="{number}"}}[5m])'),),
        hourly_cost=RATE.per_hour,
        created_at=START - 86_400,
        updated_at=START - 86_400,
    )
    replicas = 0 if phase is Phase.ZERO else 2
    return policy, phase, Workload(ref, replicas, replicas, "1")


def fill(scaling: Scaling, made: Sequence[tuple[Policy, Phase, Workload]], at_once: int) -> None:
    rows = scaling.ports.policies
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda each: rows.put_policy(each[0]), made))
    wanted = {policy.id: (phase, workload.ref) for policy, phase, workload in made}
    states: list[IdleState] = []
    for state in rows.list_states():
        phase, ref = wanted[state.policy_id]
        quiet = phase is not Phase.ACTIVE
        states.append(
            replace(
                state,
                phase=phase,
                idle_since=START if quiet else None,
                last_activity_at=START,
                checked_at=START,
                stretch_since=START,
                rate=Rate(RATE.per_hour, "EUR", "the policy") if quiet else None,
                remembered=(Remembered(ref, 2),) if phase is Phase.ZERO else (),
            )
        )
    assert len(rows.write_states(states)) == len(made)


Stored = SqlStore | DynamoStore
Plain = Callable[[], list[str]]
"""Reads every policy and every state by the bare driver."""


@contextmanager
def sqlite_store(clock: VirtualClock) -> Iterator[tuple[Stored, Plain]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        store = SqlStore.open(f"sqlite:///{path}", clock, "bench")
        with closing(store), closing(sqlite3.connect(path)) as bare:
            yield store, lambda: [row[0] for query in READ for row in bare.execute(query)]


@contextmanager
def postgres_store(clock: VirtualClock) -> Iterator[tuple[Stored, Plain]]:
    with postgres_server() as server:
        server.run("CREATE DATABASE bench")
        url = server.url("bench")
        upgrade(url)
        store = SqlStore.open(url, clock, "bench")
        plain = url.replace("postgresql+psycopg", "postgresql")
        with closing(store), psycopg.connect(plain, autocommit=True) as bare:
            texts = [query.replace("body", "body::text", 1) for query in READ]
            yield store, lambda: [row[0] for query in texts for row in bare.execute(query)]


@contextmanager
def dynamodb_store(clock: VirtualClock) -> Iterator[tuple[Stored, Plain]]:
    os.environ.update(CREDENTIALS)
    with dynamodb_server() as server:
        url = server.url("bench-state", "bench-logs")
        create_tables(url)
        store = DynamoStore.open(url, clock, "bench")
        with closing(store):
            yield store, partial(read_dynamodb, make_client(parse_tables(url)), parse_tables(url).policies)


def read_dynamodb(client: Any, table: str) -> list[str]:
    keys = Keys("bench")
    pages = client.get_paginator("query")
    return [
        item["body"]["S"]
        for pk in (keys.policy("").pk, *(keys.states(shard) for shard in range(SHARDS)))
        for page in pages.paginate(
            TableName=table,
            ConsistentRead=True,
            ProjectionExpression="body",
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": pk}},
        )
        for item in page["Items"]
    ]


STORES = {"sqlite": sqlite_store, "postgresql": postgres_store, "dynamodb": dynamodb_store}
WRITERS = {"dynamodb": 8}
"""How many fill a store at once: a bare 10,000 transactions one after the other take minutes on DynamoDB."""


def measure(
    store: Stored, plain: Plain, clock: VirtualClock, args: argparse.Namespace, at_once: int
) -> tuple[list[float], list[float]]:
    policies, rounds = args.policies, args.rounds
    made = [make(number) for number in range(policies)]
    values = {policy.signals[0].query: 1.0 if phase is Phase.ACTIVE else 0.0 for policy, phase, _ in made}
    numbers = iter(range(10**9))
    doors = ScalingPorts(
        store=store,
        policies=store.policies(),
        workloads=Cluster({workload.ref: workload for _, _, workload in made}),
        signals=Known(clock, values),
        notifier=SimNotifier(),
        clock=clock,
        new_id=lambda: f"{next(numbers):012d}",
    )
    far = ZeroDefaults(idle_threshold_seconds=10**6)
    scaling = Scaling(doors, far, Settings(lock_ttl_seconds=10**6))
    fill(scaling, made, at_once)
    policy_of, state_of = msgspec.json.Decoder(Policy), msgspec.json.Decoder(IdleState)
    ours, bare = [], []
    for number in range(rounds + 1):
        clock.sleep(60)
        gc.collect()
        began = time.perf_counter()
        report = scaling.round("bench", clock.now() + 10**6)
        took = time.perf_counter() - began
        assert (report.policies, report.fell, report.woke, report.left) == (policies, 0, 0, 0), report
        gc.collect()
        began = time.perf_counter()
        bodies = plain()
        _ = [policy_of.decode(body) for body in bodies[:policies]]
        _ = [state_of.decode(body) for body in bodies[policies:]]
        read = time.perf_counter() - began
        assert len(bodies) == 2 * policies
        if number:  # the first one opens connections and fills caches
            ours.append(took)
            bare.append(read)
    return ours, bare


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policies", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--store", action="append", choices=[*STORES], help="all where none is named")
    args = parser.parse_args()
    good = True
    for name in args.store or STORES:
        clock = VirtualClock(START)
        with STORES[name](clock) as (store, plain):
            ours, bare = measure(store, plain, clock, args, WRITERS.get(name, 1))
        took, read = statistics.median(ours), statistics.median(bare)
        ratio = took / read
        slow = read > AIM_SECONDS
        reached = (took <= AIM_SECONDS or slow) and ratio <= AIM_RATIO
        good = good and reached
        aim = f"a ratio of {AIM_RATIO:g}, since reading alone takes longer than {AIM_SECONDS:g} s here"
        aim = aim if slow else f"{AIM_SECONDS:g} s and {AIM_RATIO:g}"
        print(
            f"{name}: a round over {args.policies} policies {took:.3f} s (worst {max(ours):.3f} s), "
            f"reading plainly {read:.3f} s, ratio {ratio:.2f}; aim {aim}: "
            f"{'reached' if reached else 'missed'}",
            flush=True,
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
