"""Whatever is seen, in whatever order, and however effects end: what must never happen does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.nodes.capacity import open_removals
from ebbtide.core.nodes.drain import Disruptions, plan_drain
from ebbtide.core.operations import machine, removals, slots
from ebbtide.core.operations.facts import parts
from ebbtide.core.operations.machine import Work
from ebbtide.model.effect import (
    Cordon,
    DeleteNode,
    Effect,
    Evict,
    Launch,
    Outcome,
    OutcomeKind,
    SoftTaint,
    Terminate,
    Uncordon,
)
from ebbtide.model.operation import Removal, RemovalState, ScaleDown, Slot, SlotState, Spot, SpotKind
from ebbtide.model.record import Record
from ebbtide.model.snapshot import InstanceState, Node, Ownership, Snapshot
from tests.builders import (
    NOW,
    make_instance,
    make_node,
    make_pod,
    make_record,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    make_spot,
)
from tests.unit.operations.builders import make_situation

SETTINGS = make_settings(min_workers=1)
NAMES = ("a1", "a2", "b1")
OWNERS = (
    None,
    Ownership("op", 1),
    Ownership("op", 1, cordoned=False),
    Ownership("spot:i-a1", 1),
    Ownership("another", 9),
)
OPEN_REMOVALS = [state for state in RemovalState if removals.ALLOWED[state]]
OPEN_SLOTS = [state for state in SlotState if slots.ALLOWED[state]]
KEYS = {"i-a1": "op-0", "i-a2": "spot:i-a1-0", "i-b1": "op-1"}


@dataclass(frozen=True)
class Turn:
    """One look and its result."""

    snapshot: Snapshot
    seconds: int
    token: int
    paused: bool
    pending: bool
    notice: SpotKind | None
    answers: tuple[OutcomeKind, ...]


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    successor = draw(st.integers(0, 5)) == 0
    return make_node(
        name,
        uid=f"uid-{name}{'-successor' if successor else ''}",
        ready=draw(st.booleans()),
        unschedulable=draw(st.booleans()),
        owner=draw(st.sampled_from(OWNERS)),
        volumes_attached=draw(st.sampled_from([(), (), ("pvc",)])),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    present = [draw(nodes(name)) for name in NAMES if draw(st.integers(0, 4))]
    pods = [make_pod("resident", node_name="b1")]
    for name in NAMES:
        kind = draw(st.sampled_from(["none", "none", "web", "bare", "ending"]))
        pod = make_pod(f"{kind}-{name}", node_name=name, terminating=kind == "ending")
        pods += [] if kind == "none" else [replace(pod, controller="") if kind == "bare" else pod]
    instances = [
        make_instance(f"i-{name}", key=KEYS[f"i-{name}"], state=state)
        for name in NAMES
        if (state := draw(st.sampled_from([*InstanceState, InstanceState.RUNNING, None]))) is not None
    ]
    problems = draw(st.sampled_from([(), (), (), ("the cloud could not be read",)]))
    return make_snapshot(present, pods, instances=instances, problems=problems)


TURNS = st.builds(
    Turn,
    snapshots(),
    st.sampled_from([0, 1, 30, 60, 300, 900]),
    st.integers(1, 3),
    st.integers(0, 9).map(lambda n: n == 0),
    st.integers(0, 9).map(lambda n: n == 0),
    st.sampled_from([None, None, *SpotKind]),
    st.lists(st.sampled_from(list(OutcomeKind)), min_size=3, max_size=3).map(tuple),
)


def record_of(work: Work, turn: Turn, now: int) -> Record:
    notice = make_spot("a1", kind=turn.notice, noticed_at=now) if turn.notice else None
    record = make_record(
        paused=turn.paused,
        pending_since=now - 300 if turn.pending else 0,
        spots=(notice,) if notice and work.id == "op" else (),
    )
    if work.id != "op":
        record = replace(record, spots=(make_spot(),))
    return machine.written(record, work)


def outcomes_of(effects: Sequence[Effect], turn: Turn) -> list[Outcome]:
    made = make_instance("i-a2", key="op-0")
    return [
        Outcome(effect, kind, "said so", made if isinstance(effect, Launch) else None)
        for effect, kind in zip(effects, turn.answers, strict=False)
    ]


def check(
    work: Work, effects: Sequence[Effect], snapshot: Snapshot, irrevocable: set[str], record: Record
) -> None:
    going = [part for part in parts(work) if isinstance(part, Removal)]
    condemned = {part.instance_id for part in parts(work) if isinstance(part, Slot) and part.terminated}
    late = {node.uid for name, node in snapshot.node_of.items() if name in condemned}
    own = {removal.node_uid for removal in going} | late
    instances = {removal.instance_id for removal in going}
    named = snapshot.cluster.node_named
    for effect in effects:
        match effect:
            case Uncordon():
                assert effect.node_uid not in irrevocable
                owner = named[effect.node_name].owner
                assert owner is not None
                assert effect.operation_id == owner.operation_id
                # A removal that never learned its node has only the signature to know it by.
                assert owner.operation_id == work.id or _gives_way(owner.operation_id, work, record)
                assert effect.node_uid in own or "" in own
            case SoftTaint() | Cordon():
                assert effect.node_uid in own
            case DeleteNode() if isinstance(work, ScaleDown):
                assert effect.node_uid in own
            case Evict():
                assert named[effect.node_name].uid in own
            case Terminate() if effect.instance_id not in instances:
                assert effect.instance_id in condemned, "a machine that did not join goes by a written intent"
                node_of = snapshot.node_of.get(effect.instance_id)
                assert effect.node_name == (node_of.name if node_of else "")
                if node_of:
                    pods = snapshot.cluster.pods_on.get(node_of.name, ())
                    assert node_of.unschedulable
                    assert plan_drain(node_of, pods, Disruptions(()), SETTINGS, None).drained
            case Terminate() if effect.instance_id in instances and effect.node_name:
                assert effect.node_uid in own
                node = named[effect.node_name]
                pods = snapshot.cluster.pods_on.get(node.name, ())
                assert plan_drain(node, pods, Disruptions(()), SETTINGS, {}).drained
                assert next(r for r in going if r.instance_id == effect.instance_id).state is (
                    RemovalState.TERMINATING
                )
            case _:
                pass


def _gives_way(mark: str, work: Work, record: Record) -> bool:
    """Whether that is the mark of a closed operation, on a node that the cloud takes back."""
    open_ids = {one.id for one in (*record.operations, *record.spots)}
    return isinstance(work, Spot) and work.kind is SpotKind.INTERRUPTION and mark not in open_ids


def play(work: Work, turns: Sequence[Turn]) -> None:
    now, irrevocable = NOW, set[str]()
    for turn in turns:
        now += turn.seconds
        record = record_of(work, turn, now)
        situation = make_situation(turn.snapshot, record=record, settings=SETTINGS, now=now, token=turn.token)
        step = machine.advance(work, situation)
        assert machine.check_invariants(work, step.state) == ()
        if turn.snapshot.problems:
            assert (step.state, step.effects) == (work, ())
        irrevocable |= {
            part.node_uid
            for part in parts(step.state)
            if part.state is RemovalState.TERMINATING and isinstance(part, Removal)
        }
        check(step.state, step.effects, turn.snapshot, irrevocable, record)
        work = machine.absorb(step.state, outcomes_of(step.effects, turn), situation)
        assert machine.check_invariants(step.state, work) == ()
        if machine.is_settled(work):
            closed = machine.close(work, situation)
            assert (closed.record.operation, closed.record.spot_for("i-a1")) != (work, work)
            kept = {removal.instance_id for removal in open_removals(closed.record)}
            assert condemned_of(work) <= kept, "what is irrevocable outlives its operation"
            return


def condemned_of(work: Work) -> set[str]:
    """Machines whose termination is irrevocable and that are not gone."""
    slots = (part for part in parts(work) if isinstance(part, Slot) and part.terminated)
    return {slot.instance_id for slot in slots if slot.state is not SlotState.RECLAIMED}


def started_slot(key: str, name: str, state: SlotState) -> Slot:
    asked = state in (SlotState.RESERVED, SlotState.LAUNCHING)
    terminated = state is SlotState.TERMINATING
    return make_slot(key, state=state, instance_id="" if asked else f"i-{name}", terminated=terminated)


def started_removal(name: str, state: RemovalState) -> Removal:
    return make_removal(name, state=state, drain_deadline=NOW + 300, fence_token=1, fence_until=NOW + 60)


STORY = st.lists(TURNS, min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(STORY, st.sampled_from(OPEN_REMOVALS), st.sampled_from(OPEN_REMOVALS))
def test_no_interleaving_breaks_a_scale_down(
    turns: list[Turn], first: RemovalState, second: RemovalState
) -> None:
    play(make_scale_down(started_removal("a1", first), started_removal("a2", second)), turns)


@settings(max_examples=100, deadline=None)
@given(STORY, st.sampled_from(OPEN_SLOTS), st.sampled_from(OPEN_SLOTS))
def test_no_interleaving_breaks_a_scale_up(turns: list[Turn], first: SlotState, second: SlotState) -> None:
    play(make_scale_up(started_slot("op-0", "a1", first), started_slot("op-1", "b1", second)), turns)


@settings(max_examples=150, deadline=None)
@given(
    STORY, st.sampled_from(list(SpotKind)), st.sampled_from(OPEN_REMOVALS), st.sampled_from(list(SlotState))
)
def test_no_interleaving_breaks_the_answer_to_a_spot_notice(
    turns: list[Turn], kind: SpotKind, removal: RemovalState, slot: SlotState
) -> None:
    play(make_spot(kind=kind), turns)
    replacement = started_slot("spot:i-a1-0", "a2", slot)
    play(make_spot(kind=kind, removal=started_removal("a1", removal), slot=replacement), turns)
