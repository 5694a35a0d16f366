"""The cluster of the demo: the month behind it, and each fault that a person can make, survived."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

import pytest
from fastapi.testclient import TestClient

from ebbtide.core.prices import EC2
from ebbtide.core.scale_to_zero.savings import fold
from ebbtide.core.scale_to_zero.wake import KEPT_WAKES
from ebbtide.core.words import a_while
from ebbtide.engine.scale_to_zero.context import read_stretch
from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.cli.demo_page import demo_live, demo_site
from ebbtide.model.effect import OutcomeKind
from ebbtide.model.events import (
    Alarm,
    AlarmKind,
    CostNoted,
    EffectDone,
    EffectKind,
    FaultStruck,
    OperationKind,
    PolicyStep,
)
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.record import Record
from ebbtide.model.snapshot import Market
from ebbtide.narrate import entry_of, fact_in, facts_in
from ebbtide.simulator.run.history import WEEK_SECONDS, read_history, start_before
from ebbtide.simulator.run.live import Live
from ebbtide.simulator.run.replicas import Replicas
from ebbtide.simulator.run.scenes import SIDE_PROJECTS, shop_scene
from ebbtide.simulator.run.situation import Evidence, LiveSituation, evicting, replacing, taken_over

NOW = 1_900_000_000
DAY = 86_400
MOST_STEPS = 400
SPEED = 60.0
FAULTS = ("burst", "spot-loss", "stuck-drain", "crash", "metrics-gone", "api-gone")


@pytest.fixture
def live() -> Live:
    past = read_history()
    live = Live(1, start_before(past, NOW), shop_scene())
    for _ in range(20):
        live.step(60.0, 20.0)
    return live


def test_a_span_is_that_between_the_clocks_that_are_shown() -> None:
    """ "96 s after the fault" stood next to "survived after 97 s"."""
    seen = Evidence(NOW + 0.9, NOW + 97.2, (), Record(), 0, 0, fits=True, troubled=False)
    assert seen.after == a_while(97)


BEGAN = NOW - 6


def evidence(*facts: EffectDone | Alarm) -> Evidence:
    entries = [entry_of(f"{number:08d}", NOW, fact) for number, fact in enumerate(facts, 1)]
    return Evidence(BEGAN, NOW, entries, Record(), 0, 0, fits=True, troubled=False)


def effect(kind: EffectKind, operation: OperationKind, node: str) -> EffectDone:
    return EffectDone("op", operation, kind, OutcomeKind.DONE, node, pod="shop/web-0")


def test_an_eviction_is_no_pod_that_left_and_times_count_from_the_fault() -> None:
    """ "23 pods moved off 10 nodes, 6 s after the notice" stood there while they were still draining,
    4 s after the notice."""
    lost = OperationKind.INTERRUPTION
    seen = evidence(effect(EffectKind.EVICT, lost, "a1"), effect(EffectKind.EVICT, lost, "a2"))
    assert evicting(seen) == "2 pods asked to leave 2 nodes, 6 s after the fault."


def test_the_first_replacement_is_no_count_of_all() -> None:
    """ "6 replacements launched" stayed there when 10 were."""
    said = {
        replacing(
            evidence(*(effect(EffectKind.LAUNCH, OperationKind.INTERRUPTION, f"n{n}") for n in range(many)))
        )
        for many in (1, 6, 10)
    }
    assert said == {"The first replacement is launched, 6 s after the fault."}


def test_another_runner_took_over_once_it_continues_the_drain_and_not_something_else() -> None:
    died = Alarm(AlarmKind.RUNNER_DIED, "killed")
    other = effect(EffectKind.TERMINATE, OperationKind.SCALE_DOWN, "b1")
    drain = effect(EffectKind.EVICT, OperationKind.INTERRUPTION, "a1")
    assert taken_over(evidence(drain, died, other)) == ""
    assert taken_over(evidence(died, other, drain))


def clocks_agree(survived: LiveSituation, alarms: Sequence[LogEntry]) -> None:
    """An outage ended 5 s later in the panel than in the events."""
    assert survived.lines[-1].at == int(survived.ended_at)
    back = [entry.at for entry in alarms if entry.data["alarm"] == AlarmKind.SOURCE_BACK]
    assert all(at in [line.at for line in survived.lines] for at in back)


def survive(live: Live, fault: str) -> None:
    live.strike(fault)
    for _ in range(MOST_STEPS):
        live.step()
        if live.situation is not None and live.situation.over:
            return
    raise AssertionError(f"{fault} was not over: {live.situation and live.situation.lines}")


def test_the_month_claims_no_pending_pods_that_it_does_not_know() -> None:
    """Of its costs one in 15 minutes is kept: pods pending for seconds filled the chart for hours."""
    live = demo_live(1, NOW)
    costs = facts_in(live.ports.store.read_log([LogKind.COST], limit=500), CostNoted)
    assert len(costs) == 500
    assert {cost.pending for cost in costs} == {None}


SECONDS_OF_MINUTES = re.compile(r"(?<![\d.])(?:1[2-9]\d|[2-9]\d\d|\d{4,})(?:\.\d+)? s\b")
OLD_NAME = re.compile(r"[A-Z]{3,}_[A-Z_]{3,}")
RAW_ID = re.compile(r"\d{10}-\d{14}")


def test_the_month_speaks_as_today_does_in_durations_settings_and_short_ids() -> None:
    """It said "idle for 1800 s" and "PENDING_UP_SEC is 5" next to events of today."""
    said = {
        text
        for entry in read_history().entries
        for text in entry.data.values()
        if isinstance(text, str) and " " in text
    }
    assert len(said) > 100
    wrong = [
        text for text in said if any(each.search(text) for each in (SECONDS_OF_MINUTES, OLD_NAME, RAW_ID))
    ]
    assert wrong == []


def test_every_node_is_of_a_type_that_the_cloud_of_the_demo_has(live: Live) -> None:
    """The control plane was of a type of Hetzner's, in a zone of EC2."""
    nodes = live.stage.world.view().nodes
    assert any(node.control_plane for node in nodes)
    assert {node.instance_type for node in nodes} <= set(EC2)


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_makes_its_situation_at_once_slows_the_clock_and_is_survived(
    live: Live, fault: str
) -> None:
    assert live.pace(SPEED) == SPEED
    said = live.strike(fault)
    assert live.situation is not None
    assert facts_in(live.ports.store.read_log([LogKind.SWITCH], limit=1), FaultStruck) == [FaultStruck(said)]
    assert live.pace(SPEED) < SPEED
    live.step()
    assert live.situation.told, "the first step shows within one tick"
    survive(live, fault)
    assert all(line.at for line in live.situation.lines)
    assert live.pace(SPEED) == SPEED
    clocks_agree(live.situation, live.ports.store.read_log([LogKind.ALARM], limit=50))
    assert live.stage.checker.violations == []


def test_a_runner_that_is_killed_in_the_middle_of_a_drain_is_a_process_and_another_finishes_it() -> None:
    with Replicas() as replicas:
        live = Live(1, start_before(read_history(), NOW), shop_scene(), replicas)
        for _ in range(20):
            live.step(60.0, 20.0, in_process=True)
        acted, stood_by = replicas.pids
        survive(live, "crash")
        with pytest.raises(ProcessLookupError):
            os.kill(acted, 0)
        assert replicas.pids[0] == stood_by
        assert live.situation is not None
        told = [line.says for line in live.situation.lines]
        assert f"demo-runner-1 (process {acted}) was killed with SIGKILL" in told[1]
        assert live.owner == "demo-runner-2"
        assert live.stage.checker.violations == []


def test_crash_kills_a_process_also_where_the_next_step_was_to_be_rushed_through() -> None:
    """The first hour of the demo is rushed through without its processes. A button that was pressed between
    two of these steps killed none."""
    with Replicas() as replicas:
        live = Live(1, start_before(read_history(), NOW), shop_scene(), replicas)
        for _ in range(20):
            live.step(60.0, 20.0, in_process=True)
        acted, stood_by = replicas.pids
        live.strike("crash")
        for _ in range(MOST_STEPS):
            if live.owner != "demo-runner-1":
                break
            live.step(60.0, 20.0, in_process=True)
        with pytest.raises(ProcessLookupError):
            os.kill(acted, 0)
        assert replicas.pids[0] == stood_by


def test_a_month_lies_behind_any_start_on_the_same_day_of_the_week() -> None:
    past = read_history()
    for now in (past.end, past.end + DAY, past.end + 100 * DAY, NOW):
        start = start_before(past, now)
        assert (start - past.end) % WEEK_SECONDS == 0
        assert DAY <= now - start < DAY + WEEK_SECONDS


@pytest.fixture(scope="module")
def demo() -> Iterator[tuple[Live, TestClient]]:
    live = demo_live(1, NOW)
    site = demo_site(live, "token", SPEED)
    with TestClient(make_app(site), base_url="http://127.0.0.1") as client:
        yield live, client


def test_the_ledger_is_what_the_stretches_of_the_month_come_to(demo: tuple[Live, TestClient]) -> None:
    live, _ = demo
    for policy in live.scaling.ports.policies.list_policies():
        entries = live.ports.store.read_log([LogKind.STRETCH], policy.id, limit=10_000)
        expected = fold([read_stretch(entry) for entry in reversed(entries)])
        assert list(live.scaling.ports.policies.list_days(policy.id)) == list(expected)


def test_the_time_of_a_wake_is_learned_from_the_wakes_of_the_month(demo: tuple[Live, TestClient]) -> None:
    """The page said "about 30 s, not measured yet" next to a strip full of wakes."""
    live, client = demo
    shown = {
        each["name"]: each["state"] for each in client.get("/api/v1/scaling/policies").json()["policies"]
    }
    for policy in live.scaling.ports.policies.list_policies():
        entries = reversed(live.ports.store.read_log([LogKind.WAKE], policy.id, limit=1000))
        steps = [fact for entry in entries if (fact := fact_in(entry, PolicyStep)) is not None]
        timed = [step for step in steps if step.seconds is not None][-KEPT_WAKES:]
        assert len(timed) >= 5, policy.name
        wakes = shown[policy.name]["wakes"]
        told = [(step.seconds, step.node_seconds, step.wake_reason) for step in timed]
        assert [(one["seconds"], one["node_seconds"], one["reason"]) for one in wakes] == told
        pods = sorted(one["seconds"] - one["node_seconds"] for one in wakes)
        assert shown[policy.name]["estimated_ready_seconds"] >= pods[len(pods) // 2]
        state = live.scaling.ports.policies.find_state(policy.id)
        assert state is not None
        assert all(one.slept_seconds > one.seconds for one in state.wakes[1:]), "the flap guard weighs them"


def test_what_the_month_left_asleep_sleeps_on_when_the_demo_begins() -> None:
    """The strip ended in sleep, and the first hour of the demo put the same workloads to sleep once more."""
    live = demo_live(1, NOW)
    start = live.stage.clock.now()
    policies = live.scaling.ports.policies
    asleep = [policy for policy in policies.list_policies() if policy.name in SIDE_PROJECTS]
    assert len(asleep) == len(SIDE_PROJECTS)
    with TestClient(make_app(demo_site(live, "token", SPEED)), base_url="http://127.0.0.1") as client:
        for _ in range(20):
            live.step(60.0, 20.0)
        strips = {each["policy_id"]: each for each in client.get("/api/v1/scaling/strips").json()["policies"]}
    for policy in asleep:
        state, (ref,) = policies.find_state(policy.id), policy.target.workloads
        assert state is not None
        assert state.scaled_to_zero_at is not None
        assert state.scaled_to_zero_at < start
        assert live.scaling.ports.workloads.read(ref).replicas == 0
        *_, idle, last = strips[policy.id]["pieces"]
        assert (idle["state"], last["state"]) == ("idle", "asleep")
        assert (last["since"], last["until"]) == (state.scaled_to_zero_at, int(live.stage.clock.now()))
        entries = live.ports.store.read_log([LogKind.IDLE], policy.id, limit=1000)
        assert all(entry.at < start for entry in entries), "nothing happened to it since"


def test_what_the_demo_paid_and_saved_is_a_believable_amount(demo: tuple[Live, TestClient]) -> None:
    """About forty nodes of 0.2 to 0.4 USD an hour cost some thousand a month; removing, spot and sleep save a
    part of that, each something."""
    answer = demo[1].get("/api/v1/spending").json()
    assert answer["currency"] == "USD"
    assert 2500 < Decimal(answer["paid"]) < 9000
    saved = {cause: Decimal(amount) for cause, amount in answer["saved"].items()}
    assert all(amount > 50 for amount in saved.values()), saved
    assert sum(saved.values()) < 2 * Decimal(answer["paid"])
    month = answer["month"]
    assert Decimal(month["low"]) < Decimal(month["expected"]) < Decimal(month["high"])
    assert month["days"] >= 28
    assert {pool["name"] for pool in answer["pools"]} == {"general", "spot"}
    assert {"shop", "games", "dev"} <= {each["name"] for each in answer["namespaces"]}


def test_the_demo_has_about_forty_nodes_and_its_cloud_offers_what_they_are(
    demo: tuple[Live, TestClient],
) -> None:
    live, client = demo
    workers = live.stage.world.view().workers
    assert 30 <= len(workers) <= 50
    offered = {
        (price["instance_type"], price["market"]) for price in client.get("/api/v1/prices").json()["prices"]
    }
    assert {(node.instance_type, node.market.value) for node in workers} <= offered
    assert any(node.market is Market.SPOT for node in workers)
    assert all(node.zone.startswith("us-east-1") for node in workers), (
        "spot is offered by EC2, not by Hetzner"
    )
