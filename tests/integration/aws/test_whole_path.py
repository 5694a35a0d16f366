"""A day in one go: the Lambda function's own code, EC2 by moto, DynamoDB Local, and a cluster.

Scheduled events scale up, nodes join, a spot notice comes in between, the load goes, scheduled events scale
down, and every step is in the log table. Once on the simulator's cluster, once on a real API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.adapters.stores.dynamodb.store import DynamoStore
from ebbtide.adapters.stores.dynamodb.tables import create_tables
from ebbtide.entrypoints.aws_lambda import run
from ebbtide.model.log import LogKind
from ebbtide.model.snapshot import Instance, Market
from tests.builders import make_pool, make_type
from tests.integration.aws.grounds import Ground, RealGround, SimulatedGround
from tests.servers import aws_events
from tests.servers.clouds import EC2_ZONES, Ec2Bench
from tests.servers.dynamodb import DynamoServer, dynamodb_server
from tests.servers.moto import CREDENTIALS, environment
from tests.servers.stage import Stage

POOL = make_pool(
    "general",
    types=(make_type("m7i.large", spot_price="0.03"),),
    zones=EC2_ZONES,
    market=Market.SPOT,
)


class Context:
    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"

    def get_remaining_time_in_millis(self) -> int:
        return 120_000


class Day:
    def __init__(self, kind: Callable[[Stage], Ground], dynamodb: DynamoServer) -> None:
        timers = {"cooldown_up_seconds": 60, "cooldown_down_seconds": 60, "idle_down_seconds": 120}
        timers["metric_max_age_seconds"] = 86_400  # the day is told faster than Prometheus' clock runs
        self.stage = Stage(POOL, min_workers=2, max_workers=4, **timers)
        self.ground = kind(self.stage)
        self.bench = Ec2Bench(pools=(POOL,))
        self.url = dynamodb.url("path-state", "path-logs")
        create_tables(self.url)

    def event(self, event: Mapping[str, Any], after_seconds: float = 30) -> str:
        """What one run of the function says; its ports are opened for it alone."""
        self.stage.clock.sleep(after_seconds)
        self.stage.store = self.open_store()
        ports = replace(
            self.stage.ports(self.bench.connect()),
            cluster=self.ground.cluster(),
            metrics=self.ground.metrics(),
        )
        answer = run(event, Context(), lambda: (ports, self.stage.settings))
        return str(answer["says"])

    def open_store(self) -> DynamoStore:
        return DynamoStore.open(self.url, self.stage.clock, self.bench.settings.cluster)

    def scheduled_until(self, reached: Callable[[], bool], most: int = 40) -> None:
        for _ in range(most):
            self.event(aws_events.schedule(self.stage.clock.now()))
            if reached():
                return
        raise AssertionError(f"not reached after {most} runs")

    def at_rest(self) -> bool:
        store = self.open_store()
        record = store.load()
        store.close()
        return record.operation is None and not record.spots

    def alive(self) -> list[Instance]:
        return [instance for instance in self.bench.cloud.list_instances() if instance.alive]

    def workers(self) -> list[str]:
        return sorted(node.name for node in self.ground.nodes() if node.worker)

    def join_all(self) -> None:
        known = {node.provider_id for node in self.ground.nodes()}
        for instance in self.alive():
            if instance.provider_id not in known:
                self.ground.join(instance)


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[DynamoServer]:
    with dynamodb_server() as server:
        yield server


@pytest.fixture(params=[SimulatedGround, RealGround])
def day(request: pytest.FixtureRequest, dynamodb: DynamoServer) -> Iterator[Day]:
    with environment(CREDENTIALS):
        made = Day(request.param, dynamodb)
        yield made
        made.bench.close()
        made.ground.close()


def test_a_day_from_the_first_node_to_the_last_is_in_the_log_table(day: Day) -> None:
    day.scheduled_until(lambda: len(day.alive()) == 2)
    assert {instance.market for instance in day.alive()} == {Market.SPOT}
    day.join_all()
    day.scheduled_until(day.at_rest)
    day.ground.use(0.95)
    day.scheduled_until(lambda: len(day.alive()) > 2)
    day.join_all()
    day.ground.use(0.5)
    day.scheduled_until(day.at_rest)
    assert len(day.workers()) > 2

    victim = day.alive()[0]
    says = day.event(aws_events.interruption(day.stage.clock.now(), victim.id), after_seconds=1)
    assert f"interruption of node-{victim.id} ({victim.id}) received" in says
    day.bench.ec2.terminate_instances(InstanceIds=[victim.id])
    day.scheduled_until(lambda: f"node-{victim.id}" not in day.workers())
    day.join_all()
    day.scheduled_until(day.at_rest)

    day.ground.use(0.02)
    day.scheduled_until(lambda: len(day.alive()) == 2 and day.at_rest())
    assert day.workers() == sorted(f"node-{instance.id}" for instance in day.alive())

    store = day.open_store()
    entries = store.read_log(limit=1000)
    record = store.load()
    store.close()
    assert (record.operation, record.spots) == (None, ())
    kinds = {entry.kind for entry in entries}
    assert {
        LogKind.DECISION,
        LogKind.OPERATION_BEGUN,
        LogKind.TRANSITION,
        LogKind.EFFECT,
        LogKind.SPOT_EVENT,
        LogKind.OPERATION_CLOSED,
    } <= kinds
    told = "\n".join(entry.says for entry in entries)
    for raw in day.bench.made():
        assert raw["InstanceId"] in told
