"""The values everything else speaks in: what they derive, and the defaults users rely on."""

from __future__ import annotations

import dataclasses

import pytest

from ebbtide.model.decision import Action, Check, Verdict
from ebbtide.model.effect import Cordon, Outcome, OutcomeKind
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import RemovalState, SlotState, SpotKind, SpotNotice, spot_id
from ebbtide.model.pod import PodPhase
from ebbtide.model.pod import changed as changed_pod
from ebbtide.model.record import CLUSTER_LEASE, Lease, Record, changed, spot_lease_name
from ebbtide.model.snapshot import InstanceState, Market, Reading, Snapshot
from tests.builders import (
    NOW,
    make_instance,
    make_node,
    make_pod,
    make_pool,
    make_price,
    make_record,
    make_removal,
    make_scale_down,
    make_settings,
    make_slot,
    make_snapshot,
    make_spot,
    make_type,
)


def test_values_cannot_be_changed_in_place() -> None:
    for value in (make_node(), make_pod(), make_record(), make_settings(), make_snapshot()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.__setattr__(dataclasses.fields(value)[0].name, "other")


def test_reading_26_only_nodes_of_our_pools_that_are_neither_control_plane_nor_system_are_workers() -> None:
    assert make_node().worker
    assert not make_node(pool="").worker
    assert not make_node(control_plane=True).worker
    assert not make_node(system=True).worker
    view = make_snapshot([make_node("a1"), make_node("a2", system=True)]).cluster
    assert [node.name for node in view.workers] == ["a1"]


@pytest.mark.parametrize(
    ("state", "alive"),
    [
        (InstanceState.PENDING, True),
        (InstanceState.RUNNING, True),
        (InstanceState.TERMINATING, False),
        (InstanceState.GONE, False),
    ],
)
def test_an_instance_is_alive_until_it_is_being_terminated(state: InstanceState, alive: bool) -> None:
    assert make_instance(state=state).alive is alive


def test_a_pod_is_pending_when_it_is_accepted_not_placed_and_not_on_its_way_out() -> None:
    assert make_pod(phase=PodPhase.PENDING).waiting
    assert not make_pod(phase=PodPhase.PENDING, node_name="a1").waiting
    assert not make_pod(phase=PodPhase.PENDING, terminating=True).waiting
    assert not make_pod().waiting
    assert make_pod("web").full_name == "default/web"


def test_pods_are_found_by_node_without_the_finished_ones() -> None:
    pods = [make_pod("p1", node_name="a1"), make_pod("p2", node_name="a1"), make_pod("p3", node_name="a2")]
    done = make_pod("p4", node_name="a1", phase=PodPhase.FAILED)
    found = make_snapshot(pods=[*pods, done, make_pod("p5", phase=PodPhase.PENDING)]).cluster.pods_on
    assert {name: [pod.name for pod in on] for name, on in found.items()} == {
        "a1": ["p1", "p2"],
        "a2": ["p3"],
    }


def matched(*, launched_at: int = 0, state: InstanceState = InstanceState.RUNNING, **node: object) -> bool:
    """Whether the node is taken for the instance i-1."""
    instance = make_instance(
        "i-1", provider_id="p-1", private_ip="10.0.0.1", launched_at=launched_at, state=state
    )
    joined = make_node("a1", **{"provider_id": "", "created_at": NOW, **node})
    snapshot = make_snapshot([joined], instances=[instance])
    assert snapshot.node_of == ({"i-1": joined} if snapshot.instance_of else {})
    return snapshot.instance_of == {"a1": instance}


def test_a_node_is_matched_to_its_instance_by_provider_id_before_anything_else() -> None:
    assert matched(provider_id="p-1")
    assert not matched(provider_id="p-2", instance_id="i-1", private_ip="10.0.0.1")


def test_without_a_provider_id_the_label_set_at_join_names_the_instance() -> None:
    assert matched(instance_id="i-1")
    assert not matched(instance_id="i-2", private_ip="10.0.0.1")


def test_a_node_with_the_reused_address_of_an_older_node_is_not_matched() -> None:
    assert matched(private_ip="10.0.0.1", launched_at=NOW)
    assert not matched(private_ip="10.0.0.1", launched_at=NOW + 1), "the node is older than the instance"
    assert not matched(private_ip="10.0.0.1", state=InstanceState.GONE)
    assert not matched(private_ip="10.0.0.9")
    assert not matched()


def test_instances_are_found_by_id_and_by_the_key_of_their_launch() -> None:
    keyed, plain = make_instance("i-1", key="op-0"), make_instance("i-2")
    snapshot = make_snapshot(instances=[keyed, plain])
    assert snapshot.instance_with_id == {"i-1": keyed, "i-2": plain}
    assert snapshot.instance_with_key == {"op-0": keyed}


def test_a_metric_that_was_not_read_is_unknown_with_a_reason() -> None:
    assert Snapshot(NOW).cpu == Reading(None, 0, "not read")


def test_a_price_that_is_not_known_is_none_and_never_zero() -> None:
    node_type = make_type(price="0.05")
    assert node_type.price_in(Market.ON_DEMAND) == make_price("0.05")
    assert node_type.price_in(Market.SPOT) is None


def test_types_and_pools_are_found_by_name() -> None:
    pool = make_pool(types=(make_type("small"), make_type("large")))
    assert pool.type_named("large") == make_type("large")
    assert pool.type_named("huge") is None
    assert make_settings(pools=(pool,)).pool_named("workers") is pool
    assert make_settings().pool_named("gpu") is None


def test_scaling_is_in_progress_exactly_when_there_is_an_operation() -> None:
    assert not Record().scaling_in_progress
    assert make_record(operation=make_scale_down()).scaling_in_progress


def test_there_is_one_answer_to_the_spot_notices_of_an_instance() -> None:
    spot = make_spot("a1")
    record = make_record(spots=(spot,))
    assert record.spot_for("i-a1") is spot
    assert record.spot_for("i-a2") is None
    assert spot.id == spot_id("i-a1") == "spot:i-a1"
    assert SpotNotice("i-a1", SpotKind.REBALANCE, NOW, NOW + 120).instance_id == spot.instance_id


def test_a_slot_is_expected_until_it_is_a_worker_or_known_to_become_none() -> None:
    settled = {state for state in SlotState if make_slot(state=state).settled}
    expected = {state for state in SlotState if make_slot(state=state).expected}
    assert settled == {SlotState.READY, SlotState.RECLAIMED, SlotState.FAILED}
    assert expected == set(SlotState) - settled


def test_a_node_is_not_counted_on_from_the_plan_to_remove_it_until_it_is_being_released() -> None:
    settled = {state for state in RemovalState if make_removal(state=state).settled}
    dooming = {state for state in RemovalState if make_removal(state=state).dooms}
    assert settled == {RemovalState.GONE, RemovalState.RELEASED, RemovalState.SET_ASIDE}
    assert dooming == set(RemovalState) - {RemovalState.RELEASING, RemovalState.RELEASED}


def test_a_verdict_names_the_first_check_that_failed() -> None:
    good, bad = Check("one", True, "1 is 1"), Check("two", False, "2 is not 3")
    assert Verdict(Action.SCALE_UP, (good, bad)).failed is bad
    assert Verdict(Action.SCALE_UP, (good,)).failed is None


def test_leases_of_spot_notices_are_apart_from_the_lease_of_the_cluster() -> None:
    lease = Lease(spot_lease_name("i-a1"), "runner", 1, NOW)
    assert lease.name != CLUSTER_LEASE


def test_an_outcome_and_a_log_entry_need_say_no_more_than_what_happened() -> None:
    outcome = Outcome(Cordon("a1", "uid-a1", "op"), OutcomeKind.DONE)
    assert (outcome.detail, outcome.instance) == ("", None)
    entry = LogEntry("1", NOW, LogKind.EFFECT, "cordon a1: done")
    assert (entry.subject, entry.data) == ("", {})


def test_a_changed_record_differs_in_what_was_named_alone_and_knows_no_other_name() -> None:
    before = make_record(worker_count=3)
    after = changed(before, pod_count=7)
    assert (after, before.pod_count) == (dataclasses.replace(before, pod_count=7), 0)
    with pytest.raises(TypeError, match="pods"):
        changed(before, pods=7)


def test_a_pod_is_changed_as_any_value_is() -> None:
    pod = make_pod("web-1", labels=(("app", "web"),), volumes=("data",))
    for changes in ({}, {"node_name": "a1"}, {"phase": PodPhase.PENDING, "ready": False, "ends_at": 7}):
        assert changed_pod(pod, **changes) == dataclasses.replace(pod, **changes)
    with pytest.raises(KeyError, match="node"):
        changed_pod(pod, node="a1")
