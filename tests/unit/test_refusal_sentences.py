"""What is said of a node that is kept: one sentence for each cause, with names and numbers.

The tests of the rules ask for the cause and what it is about.
"""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.core.consolidation.emptied_nodes import choose_leaving
from ebbtide.core.nodes.targets import choose_targets
from ebbtide.core.nodes.underused import choose_underused
from ebbtide.model.check import Check, Gate, NodeCause, Refusal, Why, held_by, refused
from ebbtide.model.decision import Action, Decision
from ebbtide.model.operation import RemovalState
from ebbtide.model.pod import Pod
from ebbtide.model.pool import RemovalBudget
from ebbtide.model.record import DrainBackoff, Emptied, Record, Refused
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Ownership
from ebbtide.typed import decode
from tests.builders import (
    NOW,
    make_budget,
    make_node,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_removal,
    make_settings,
    make_snapshot,
)
from tests.unit import test_headroom as headroom
from tests.unit import test_leaving as leaving
from tests.unit import test_next_to_launches as launches
from tests.unit import test_replacing as replacing
from tests.unit import test_underused as underused
from tests.unit.consolidation import builders as repacking
from tests.unit.consolidation.test_choice import LARGE, SMALL

PAIR = make_nodes("a1", "a2")


def said(refusals: tuple[Refusal, ...], name: str = "a1") -> str:
    return next(refusal.reason for refusal in refusals if refusal.node_name == name)


def said_of(*pods: Pod, record: Record | None = None, settings: Settings | None = None, **first: Any) -> str:
    """Of a1, where one of two nodes may go."""
    nodes = (make_node("a1", created_at=1, **first), make_node("a2"))
    snapshot = make_snapshot(nodes, pods, budgets=(make_budget(0, app="web"),))
    return said(choose_targets(snapshot, record or make_record(), settings or make_settings(), NOW, 1)[1])


def test_what_is_said_of_a_node_that_is_not_ours_to_remove() -> None:
    rests = make_record(rests=(DrainBackoff("i-a1", NOW + 60, "it would not drain"),))
    assert said_of(record=rests) == "it is skipped until 2023-11-14 22:14 UTC: it would not drain"
    assert said_of(provider_id="") == "the cloud lists no instance of ours for it"
    assert said_of(unschedulable=True) == "it was cordoned by someone else"
    assert said_of(owner=Ownership("op", 1)) == "it still carries the mark of operation op"
    assert said_of(pool="old") == "its pool old is not configured"


def test_what_is_said_of_a_node_that_must_stay() -> None:
    pool = make_pool(min_workers=2)
    minimum = make_settings(pools=(pool,), min_workers=0)
    assert said_of(settings=minimum) == "1 would be left in pool workers, its minimum is 2"
    none = make_settings(pools=(make_pool(budgets=(RemovalBudget(0),)),))
    assert said_of(settings=none) == (
        "0 more of its pool may go: 0 of at most 0 are leaving; budget of pool workers: 0 nodes"
    )
    zones = choose_targets(make_snapshot(make_nodes("a1", "b1")), make_record(), make_settings(), NOW, 1)
    assert said(zones[1]) == "it is the last ready worker in zone a"


def test_what_is_said_of_pods_that_keep_a_node() -> None:
    bare = make_pod("bare", node_name="a1", controller="")
    assert said_of(bare) == "default/bare has no controller that would create it again"
    web = make_pod("web", node_name="a1", labels=(("app", "web"),))
    assert said_of(web) == "default/web must wait: PodDisruptionBudget web allows no disruption now"
    assert said_of(make_pod("web", node_name="a1", terminating=True)) == "default/web is still terminating"
    large = [make_pod(f"p-{name}", 2500, node_name=name) for name in ("a1", "a2")]
    assert said_of(*large) == "default/p-a1 would fit on no other node"


def test_what_is_said_where_headroom_keeps_a_node() -> None:
    snapshot, record = make_snapshot(make_nodes("a1", "a2", "a3")), headroom.idle_record("a1", "a2", "a3")
    _, refusals = choose_targets(snapshot, record, headroom.settings_with(), NOW, 3)
    lost = "headroom for 2 pods of 3000m CPU and 4096 MiB would have room for 1 without it, 2 with it"
    assert {refusal.reason for refusal in refusals} == {lost}


def test_what_is_said_where_nodes_are_judged_one_by_one() -> None:
    pods = [underused.on("a1", 1500), underused.on("a2", 500), underused.on("a3", 3000)]
    record = make_record(underused=(Emptied("uid-a1", NOW - 299), Emptied("uid-a2", NOW - 300)))
    settings = make_settings(**underused.ONE_BY_ONE)
    nodes = make_nodes("a1", "a2", "a3", "a4")
    _, refusals = choose_underused(make_snapshot(nodes, pods), record, settings, NOW, 9)
    assert said(refusals) == "it has been underused for 4 min 59 s, idle_down_sec is 5 min"
    assert said(refusals, "a3") == "75% of it is requested, not counting DaemonSets; underused is below 50%"


def test_what_is_said_next_to_a_launch() -> None:
    def of(decision: Decision) -> str:
        return said(next(v for v in decision.verdicts if v.action is Action.SCALE_DOWN).refusals)

    pods = [make_pod("small", 500, node_name="a2"), make_pod("other", 500, node_name="a1")]
    assert of(launches.decided(pods)) == (
        "it carries pods, and a scale-up is in progress (operation …abcdef)"
    )


def test_what_is_said_of_a_node_that_consolidation_emptied() -> None:
    def of(record: Record, *first: Any, settings: Settings = leaving.SETTINGS) -> str:
        nodes = (*first, *leaving.NODES[len(first) :])
        return said(choose_leaving(make_snapshot(nodes), record, settings, NOW)[1])

    one = leaving.record_of("a1")
    aside = Refused("op", make_removal("a1", state=RemovalState.SET_ASIDE), NOW + 600)
    assert of(leaving.record_of("a1", refused=(aside,))) == "its removal has already started"
    assert of(one, make_node("a1", created_at=NOW - 1799)) == "it is 29 min 59 s old, min_uptime is 30 min"
    assert of(one, make_node("a1", uid="new")) == "it is no longer the same node"
    assert of(one, make_node("a1", unschedulable=True)) == "it was cordoned by someone else"
    assert of(one, make_node("a1", owner=Ownership("other", 1))) == "it belongs to operation other"
    idle = "it has been empty for 14 min 59 s, consolidation.min_idle_sec is 15 min"
    assert of(leaving.record_of("a1", idle=899)) == idle
    rests = leaving.record_of("a1", rests=(DrainBackoff("i-a1", NOW, "failed"),))
    assert of(rests) == "it rests: failed"
    gone = choose_leaving(make_snapshot(leaving.NODES[1:]), one, leaving.SETTINGS, NOW)[1]
    assert said(gone) == "it left the cluster"


def test_what_is_said_where_a_node_cannot_be_replaced() -> None:
    def of(found: tuple[Decision, Check | None], action: Action = Action.REPLACE) -> str:
        return said(next(v for v in found[0].verdicts if v.action is action).refusals)

    big = make_pod("big", 4100, 100, node_name="a1")
    says = "default/big would fit neither on a new small nor elsewhere"
    assert of(replacing.asked(replacing.expired([big]), **replacing.EXPIRY)) == says
    full = replacing.asked(replacing.expired(), **{**replacing.EXPIRY, "max_workers": 3})
    assert of(full) == "no room for a replacement: 3 nodes exist or are expected, max_workers is 3"
    asleep = make_pool(expire_seconds=replacing.OLD, may_be_empty=True)
    assert of(replacing.asked(replacing.expired(), pools=(asleep,))) == (
        "its pool workers sleeps: it goes without a replacement when it is idle"
    )


def test_what_consolidation_says_of_each_node() -> None:
    moved = repacking.report_on(
        repacking.cluster([LARGE, SMALL], [repacking.pod("web", LARGE), repacking.pod("db", SMALL)])
    )
    words = repacking.fate_in_words
    assert (words(moved, "a1"), words(moved, "a2")) == ("its pod fits elsewhere", "it takes in 1 pod")
    nodes = [repacking.node("a1", "cpx62"), repacking.node("b1", "cpx62"), repacking.node("b2", "cpx62")]
    zones = repacking.report_on(repacking.cluster(nodes), repacking.idle(*nodes))
    assert words(zones, "a1") == "it is the last worker in zone a"
    fresh = repacking.node("a1", "cpx62", created_at=NOW - 300)
    young = repacking.report_on(repacking.cluster([fresh, SMALL]), repacking.idle(fresh, SMALL))
    assert words(young, "a1") == "it is 5 min old, at least 30 min required"
    early = repacking.report_on(repacking.cluster([LARGE, SMALL]), repacking.idle(LARGE, SMALL, seconds=120))
    assert words(early, "a1") == "it has been empty for 2 min, at least 15 min required"


def test_a_cause_that_only_a_newer_version_knows_reads_as_another() -> None:
    stored = b'{"node_name": "a1", "reason": "why", "cause": "%s"}'
    assert decode(stored % b"the-moon", Refusal).cause is NodeCause.OTHER
    assert decode(stored % b"no_place", Refusal).cause is NodeCause.NO_PLACE
    old = decode(b'{"node_name": "a1", "reason": "why"}', Refusal)
    assert old.cause is NodeCause.UNKNOWN
    assert old == refused("a1", Why(NodeCause.CORDONED, "why")), "a stored decision replays as equal"


@pytest.mark.parametrize("passed", [True, False])
def test_the_first_check_that_does_not_hold_keeps_a_node(passed: bool) -> None:
    checks = (Check(Gate.CPU_KNOWN, True, "yes"), Check(Gate.ZONE_KEPT, passed, "no"))
    assert held_by(checks) == (None if passed else Why(NodeCause.CHECK, "no", Gate.ZONE_KEPT))
