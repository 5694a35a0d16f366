"""One run of the Lambda function in this process, on the simulated cloud."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine.ports import Ports
from ebbtide.entrypoints.aws_lambda import budget_seconds, run
from ebbtide.errors import Retryable
from ebbtide.model.log import LogKind
from ebbtide.model.record import Lease
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Instance
from ebbtide.simulator.world.ports import SimCloud
from tests.builders import make_pool
from tests.servers import aws_events
from tests.servers.stage import Stage


class Context:
    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"

    def __init__(self, milliseconds: int = 120_000) -> None:
        self.milliseconds = milliseconds

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds


class BlindCloud(SimCloud):
    def list_instances(self) -> Sequence[Instance]:
        raise Retryable("the cloud cannot be read")


class ClosingCloud(SimCloud):
    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def stage() -> Stage:
    return Stage(make_pool())


def opened(stage: Stage, cloud: SimCloud) -> tuple[Ports, Settings]:
    return stage.ports(cloud), stage.settings


def test_a_scheduled_event_runs_a_tick_and_says_what_was_done(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud = SimCloud(stage.world, stage.clock)
    answer = run(aws_events.schedule(stage.clock.now()), Context(), lambda: opened(stage, cloud))
    assert answer["held"] is True
    assert "no scale-up" in answer["says"]
    assert '"event": "schedule"' in capsys.readouterr().out


def test_two_runs_never_have_the_same_owner_not_even_for_one_request(stage: Stage) -> None:
    """Lambda delivers an event again under the same request id while the first run may still be alive."""
    cloud = SimCloud(stage.world, stage.clock)
    owners: list[str] = []

    class Asked(MemoryStore):
        def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
            owners.append(owner)
            return super().acquire(name, owner, ttl_seconds)

    def opener() -> tuple[Ports, Settings]:
        return replace(stage.ports(cloud), store=Asked(stage.clock, database=stage.database)), stage.settings

    for _ in range(2):
        run(aws_events.schedule(stage.clock.now()), Context(), opener)
    assert len(set(owners)) == len(owners) == 2
    assert all(Context.aws_request_id in owner for owner in owners)


def test_a_notice_that_could_not_be_taken_in_fails_the_run_so_it_comes_again(stage: Stage) -> None:
    cloud = BlindCloud(stage.world, stage.clock)
    event = aws_events.interruption(stage.clock.now())
    with pytest.raises(Retryable, match="delivers it again"):
        run(event, Context(), lambda: opened(stage, cloud))


def test_row_34_a_run_that_cannot_see_writes_its_alarm_and_a_metric_and_then_fails(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud = BlindCloud(stage.world, stage.clock)
    ports, settings = opened(stage, cloud)
    with pytest.raises(Retryable, match=r"the cloud could not be read: .* nothing was decided"):
        run(aws_events.schedule(stage.clock.now()), Context(), lambda: (ports, settings))
    line = json.loads(capsys.readouterr().out)
    metric = line["_aws"]["CloudWatchMetrics"][0]["Metrics"][0]["Name"]
    assert (metric, line[metric], line["cluster"]) == ("ObservationFailed", 1, settings.cluster)
    alarms = [entry.says for entry in ports.store.read_log([LogKind.ALARM])]
    assert len(alarms) == 1
    assert alarms[0].startswith("the cloud could not be read")


def test_a_notice_for_a_foreign_instance_is_taken_in_and_ignored(stage: Stage) -> None:
    cloud = SimCloud(stage.world, stage.clock)
    answer = run(aws_events.interruption(stage.clock.now()), Context(), lambda: opened(stage, cloud))
    assert "not an instance of ours" in answer["says"]


def test_a_stale_event_is_dropped_without_a_tick(stage: Stage) -> None:
    cloud = SimCloud(stage.world, stage.clock)
    answer = run(aws_events.interruption(stage.clock.now() - 4000), Context(), lambda: opened(stage, cloud))
    assert answer["says"].startswith("dropped")
    assert stage.log() == []


def test_every_port_is_closed_and_no_thread_is_left_even_when_the_run_fails(stage: Stage) -> None:
    cloud = ClosingCloud(stage.world, stage.clock)
    before = threading.active_count()
    run(aws_events.schedule(0), Context(), lambda: opened(stage, cloud))
    assert cloud.closed
    assert threading.active_count() == before


@pytest.mark.parametrize(("left", "budget"), [(120_000, 90), (40_000, 20), (2_000, 1)])
def test_the_budget_leaves_time_for_a_call_that_was_just_started(left: int, budget: float) -> None:
    assert budget_seconds(Context(left), replace(Settings(), request_timeout_seconds=30)) == budget
