"""The item under the attribute names of the specification: what DynamoDB holds in each state, and back.

`golden/items.json` is what a person or another tool reads in the table. After a wanted change, write it
again with UPDATE_GOLDEN=1 and read the difference.
"""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.adapters.stores.codec.operations import OPTIONAL_ATTRIBUTES
from ebbtide.adapters.stores.codec.record import from_item, item_key, lock_key, to_item
from ebbtide.adapters.stores.dynamodb.record import from_wire_item, to_wire_item
from ebbtide.adapters.stores.dynamodb.tables import make_client, parse_tables
from ebbtide.errors import StoreCause
from ebbtide.model.operation import (
    AbortCause,
    Consolidate,
    Move,
    MoveState,
    Operation,
    Removal,
    RemovalState,
    ScaleDown,
    ScaleUp,
    Slot,
    SlotState,
    Source,
    SourceState,
    Spot,
)
from ebbtide.model.record import (
    CLUSTER_LEASE,
    DrainBackoff,
    DrainFailures,
    Emptied,
    EmptiedNode,
    Missing,
    Record,
    Refused,
    Saving,
    spot_lease_name,
)
from ebbtide.model.snapshot import Market
from tests.builders import asides, lanes
from tests.contract.stores.lab import DynamoLab, cause_of

GOLDEN = Path(__file__).parent.parent / "golden"
DOCUMENTS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "documents.json").read_text())
ACTION = "1730000300-req-xyz"
BEGUN = 1730000300
IDLE = Record(
    last_scale_at=1730000000,
    idle_since=1730000100,
    worker_count=2,
    emptied=(Emptied("5f1b0c52-uid-of-a-node", 1730000100),),
    last_consolidation_at=1730000000,
    consolidations_in_vain=1,
    consolidation_owes=1,
    saving=Saving(1730000000, Decimal("0.1368"), Decimal("0.40"), "EUR", 7500, 12288, 1),
    evictions=(1729999000, 1730000000),
    leaving=(EmptiedNode("node-c", "uid-c", "i-ccc", "1730000000-req-abc", 1730002700),),
)


SAVED = to_item(IDLE)["consolidationSaving"]


def scale_up(*states: SlotState) -> ScaleUp:
    slots = tuple(
        Slot(
            key=f"{ACTION}-{number}",
            pool="workers",
            zone="eu-central-1a",
            instance_type="t3.large",
            market=Market.ON_DEMAND,
            state=state,
            since=BEGUN,
            instance_id="" if state is SlotState.RESERVED else f"i-{'ab'[number] * 3}",
        )
        for number, state in enumerate(states)
    )
    return ScaleUp(ACTION, BEGUN, len(slots), slots, "pods have been pending for 200 s")


def scale_down(*states: RemovalState) -> ScaleDown:
    removals = tuple(
        Removal(
            f"i-{'ab'[number] * 3}", f"node-{'ab'[number]}", zone="eu-central-1a", state=state, since=BEGUN
        )
        for number, state in enumerate(states)
    )
    return ScaleDown(ACTION, BEGUN, removals, "CPU 0.12 is below 0.30")


def consolidation(state: MoveState) -> Consolidate:
    return Consolidate(
        ACTION,
        BEGUN,
        slots=(replace(scale_up(SlotState.READY).slots[0], node_name="node-b"),),
        sources=(Source("i-aaa", "node-a", "uid-a", "eu-central-1a", "workers", SourceState.MARKED, BEGUN),),
        moves=(Move("uid-web", "default/web-1", "node-a", "node-b", "uid-rs", 2, state, BEGUN),),
        savings_per_hour=Decimal("0.1368"),
        currency="EUR",
        reason="consolidation: empty node-a by 1 moves",
        watched_since=BEGUN,
    )


STATES: dict[str, Operation | None] = {
    "idle": None,
    "scale-up begun": scale_up(SlotState.RESERVED, SlotState.RESERVED),
    "scale-up recorded": scale_up(SlotState.LAUNCHED, SlotState.LAUNCHED),
    "scale-up verifying": scale_up(SlotState.READY, SlotState.JOINED),
    "scale-down begun": scale_down(RemovalState.PLANNED, RemovalState.PLANNED),
    "scale-down draining": scale_down(RemovalState.DRAINED, RemovalState.DRAINING),
    "scale-down terminating": scale_down(RemovalState.TERMINATING, RemovalState.DRAINED),
    "scale-down progress": scale_down(RemovalState.GONE, RemovalState.TERMINATING),
    "consolidation moving": consolidation(MoveState.EVICTING),
    "consolidation given up": replace(consolidation(MoveState.LEFT), abort_reason="pods have waited 180 s"),
}


def held_by_dynamodb(lab: DynamoLab, key: str) -> dict[str, Any]:
    client = make_client(parse_tables(lab.server.url(*lab.tables)))
    item = client.get_item(TableName=lab.tables[0], Key={"pk": {"S": key}}, ConsistentRead=True)["Item"]
    client.close()
    assert isinstance(item, dict)
    return item


def test_dynamodb_holds_the_item_of_each_state_attribute_by_attribute(dynamodb_lab: DynamoLab) -> None:
    store = dynamodb_lab.open("golden")
    held: dict[str, Any] = {}
    lease = store.acquire(CLUSTER_LEASE, "req-xyz", 300)
    record = replace(IDLE, cluster="golden")
    for state, operation in STATES.items():
        record = store.write(replace(record, **lanes(None)), lease)
        record = store.write(replace(record, **lanes(operation)), lease)
        held[state] = held_by_dynamodb(dynamodb_lab, "cluster#golden")
        for changing in ("nonce", "rev", "lockUntilEpoch"):
            held[state][changing] = {next(iter(held[state][changing])): "changes"}
    spot = store.acquire(spot_lease_name("i-aaa"), "req-xyz", 180)
    held["spot lock"] = held_by_dynamodb(dynamodb_lab, "lock#golden#spot:i-aaa")
    for changing in ("expiresEpoch", "lockUntilEpoch"):
        held["spot lock"][changing] = {"N": "changes"}
    store.release(spot)
    store.close()
    golden = GOLDEN / "items.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(json.dumps(held, indent=2, sort_keys=True) + "\n")
    assert held == json.loads(golden.read_text())


def test_a_closed_operation_leaves_no_attribute_behind(dynamodb_lab: DynamoLab) -> None:
    store = dynamodb_lab.open("closed")
    record = replace(IDLE, cluster="closed", **lanes(scale_up(SlotState.LAUNCHED)), **asides(scale_down()))
    record = store.write(record, None)
    store.write(replace(record, saving=None, **lanes(None), **asides(None)), None)
    assert not held_by_dynamodb(dynamodb_lab, "cluster#closed").keys() & set(OPTIONAL_ATTRIBUTES)
    store.close()


@pytest.mark.parametrize("example", DOCUMENTS)
def test_an_example_of_the_documents_loads_and_is_carried_on(dynamodb_lab: DynamoLab, example: str) -> None:
    cluster = example.replace(" ", "-")
    item = {**DOCUMENTS[example], "pk": item_key(cluster), "notOurs": "kept"}
    client = make_client(parse_tables(dynamodb_lab.server.url(*dynamodb_lab.tables)))
    client.put_item(TableName=dynamodb_lab.tables[0], Item=to_wire_item(item))
    client.close()
    store = dynamodb_lab.open(cluster)
    record = store.load()
    assert record == from_item(item, cluster)
    lease = store.acquire(CLUSTER_LEASE, "a", 300)
    assert store.write(record, lease).rev == 1
    after = from_wire_item(held_by_dynamodb(dynamodb_lab, item_key(cluster)))
    assert {name: after[name] for name in item} == item
    store.close()


def test_the_examples_of_the_documents_mean_what_they_say() -> None:
    idle, up, down = (from_item(item, "cluster") for item in DOCUMENTS.values())
    assert (idle.operation, idle.worker_count, idle.idle_since) == (None, 2, 1730000100)
    assert isinstance(up.operation, ScaleUp)
    assert [slot.instance_id for slot in up.operation.slots] == ["i-aaa", "i-bbb"]
    assert isinstance(down.operation, ScaleDown)
    assert [removal.state for removal in down.operation.removals] == ["GONE", "PLANNED"]
    for record, item in zip((idle, up, down), DOCUMENTS.values(), strict=True):
        written = to_item(record)
        assert {name: written[name] for name in item} == item


def with_every_field(kind: type[Any]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **dict.fromkeys((field.name for field in fields(kind)), ...))


def in_order(emptied: dict[str, int]) -> tuple[Emptied, ...]:
    """Each node once, by UID, as the record keeps them."""
    return tuple(Emptied(uid, since) for uid, since in sorted(emptied.items()))


def without_contradictions(record: Record) -> Record:
    """They are about how it was read, not a part of it."""
    return replace(record, contradictions=())


def only_known_runs(record: Record) -> Record:
    """Runs are counted for what is open; for the only one, whichever lane it is in."""
    if record.removing is None:
        return replace(record, unclean_removal_runs=0)
    return record if record.launching is not None else replace(record, unclean_runs=0)


def only_causes_with_a_reason(record: Record) -> Record:
    """A cause is never without its sentence."""
    for lane in ("removing", "removing_aside"):
        work = getattr(record, lane)
        if work is not None and not work.abort_reason:
            record = replace(record, **{lane: replace(work, abort_cause=AbortCause.NONE)})
    return record


for part in (
    Slot,
    Removal,
    Refused,
    ScaleUp,
    ScaleDown,
    Source,
    Move,
    Spot,
    DrainBackoff,
    DrainFailures,
    Missing,
    EmptiedNode,
):
    st.register_type_strategy(part, with_every_field(part))
# The amount that an operation saves is always finite.
st.register_type_strategy(
    Consolidate,
    st.builds(
        Consolidate,
        **{field.name: ... for field in fields(Consolidate) if field.name != "savings_per_hour"},
        savings_per_hour=st.decimals(allow_nan=False, allow_infinity=False, places=6),
    ),
)
# Nor are amounts of a consolidation anything but numbers.
amounts = st.decimals(allow_nan=False, allow_infinity=False, places=6)
st.register_type_strategy(
    Saving,
    st.builds(
        Saving,
        **{field.name: ... for field in fields(Saving) if field.name not in ("promised", "cost_before")},
        promised=amounts,
        cost_before=amounts,
    ),
)
by_node = st.dictionaries(st.text(min_size=1), st.integers()).map(in_order)
records = st.builds(
    lambda record, emptied, underused: only_causes_with_a_reason(
        only_known_runs(replace(record, cluster="c", emptied=emptied, underused=underused, contradictions=()))
    ),
    with_every_field(Record),
    by_node,
    by_node,
)


@given(records)
@settings(deadline=None, max_examples=50)  # each has twice the operations that it had with one lane
def test_any_record_comes_back_from_its_item(record: Record) -> None:
    item = to_item(record)
    assert without_contradictions(from_item(item, "c")) == record
    assert without_contradictions(from_item(from_wire_item(to_wire_item(item)), "c")) == record
    assert item.keys() - set(OPTIONAL_ATTRIBUTES) == to_item(Record()).keys()


def test_a_back_off_that_is_about_no_offer_any_more_leaves_none_behind() -> None:
    """On DynamoDB only attributes that are known as optional are removed."""
    with_offers = to_item(Record(launch_backoff_until=9, launch_backoff_offers=("gpu",)))
    without = to_item(Record(launch_backoff_until=9))
    assert with_offers.keys() - without.keys() <= set(OPTIONAL_ATTRIBUTES)


@pytest.mark.parametrize("kind", ["scaleDown", "consolidate"])
def test_the_cause_of_an_abort_is_kept_next_to_its_reason(kind: str) -> None:
    begun = scale_down(RemovalState.PLANNED) if kind == "scaleDown" else consolidation(MoveState.LEFT)
    assert f"{kind}AbortCause" not in to_item(Record(**lanes(begun))), "written only where it says something"
    item = to_item(Record(**lanes(replace(begun, abort_reason="CPU 0.95", abort_cause=AbortCause.LOAD))))
    assert cause_in(item) is AbortCause.LOAD
    newer, earlier = {f"{kind}AbortCause": "the-moon"}, {f"{kind}AbortCause": ""}
    assert cause_in({**item, **newer}) is AbortCause.OTHER
    assert cause_in({**item, **earlier}) is AbortCause.NONE
    stale = {f"{kind}AbortReason": ""}
    assert cause_in({**item, **stale}) is AbortCause.NONE, "left behind by a version that does not know it"


def cause_in(item: dict[str, Any]) -> AbortCause:
    removing = from_item(item, "c").removing
    assert removing is not None
    return removing.abort_cause


@pytest.mark.parametrize(
    "broken",
    [
        {"rev": "many"},
        {"formatVersion": "one"},
        {"scaleUpActionId": "a"},
        {"scaleUpActionId": "a", "scaleDownActionId": "b"},
        {"scaleDownActionId": "a", "consolidateActionId": "b"},
        {"consolidateActionId": "a", "consolidateStartedEpoch": 1},
        {**to_item(Record(**lanes(consolidation(MoveState.LEFT)))), "consolidateSavingsPerHour": "much"},
        {**to_item(Record(**lanes(consolidation(MoveState.LEFT)))), "consolidateMoves": [{"state": "?"}]},
        {"consolidationSaving": {"begun_at": 1}},
        {"consolidationSaving": {**SAVED, "promised": "NaN"}},
        {"consolidationSaving": {**SAVED, "cost_before": "Infinity"}},
        {"leaving": "all"},
        {"spotOperations": [{"id": 1}]},
        {"rests": "none"},
        {"lastContainerRemovedAt": [1]},
        {"lastContainerRemovedAt": {"uid": "early"}},
        {"setAside": "x"},
        {"scaleDownActionId": "a", "scaleDownStartedEpoch": 1, "scaleDownRemovals": [{"state": "FLYING"}]},
    ],
)
def test_an_item_that_cannot_be_read_is_refused_and_left(broken: dict[str, Any]) -> None:
    assert cause_of(lambda: from_item({"pk": "cluster", **broken}, "cluster")) is StoreCause.CORRUPT


@pytest.mark.parametrize(
    ("item", "open_", "says"),
    [
        ({"scalingInProgress": True}, False, "scalingInProgress=True although it holds no operation"),
        (
            {"scalingInProgress": False, "scaleUpActionId": "a", "scaleUpStartedEpoch": 1},
            True,
            "scalingInProgress=False although it holds an operation",
        ),
        ({"lockOwner": "x"}, False, "held by x and has no end"),
    ],
)
def test_an_item_that_contradicts_itself_is_read_as_it_must_be_meant(
    item: dict[str, Any], open_: bool, says: str
) -> None:
    record = from_item({"pk": "cluster", **item}, "cluster")
    assert record.scaling_in_progress is open_
    assert len(record.contradictions) == 1
    assert says in record.contradictions[0]
    assert "contradictions" not in to_item(record)


def test_keys_of_the_first_cluster_are_those_of_the_documents() -> None:
    assert (item_key("cluster"), item_key("blue")) == ("cluster", "cluster#blue")
    assert lock_key("cluster", "spot:i-1") == "lock#spot:i-1"
    assert lock_key("blue", "spot:i-1") == "lock#blue#spot:i-1"
