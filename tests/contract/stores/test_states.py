"""The states of policies in every store: one at a time with ledger and log, or many at once."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from decimal import Decimal

import pytest

from ebbtide.adapters.stores.codec.policies import ENTRIES_IN_WRITE, Bodies, state_body
from ebbtide.errors import Conflict
from ebbtide.model.idle import IdleState, NodeFirst, NodeNeed, Phase, PolicyCause, WakeTime
from ebbtide.model.pod import FitCause
from ebbtide.ports import PolicyStore, Store
from tests.contract.stores.examples import make_entry
from tests.contract.stores.policy_examples import full_state, make_day, make_policy, policy_id

MANY = 120


@dataclass(frozen=True, slots=True)
class EarlierNodeFirst:
    need: NodeNeed
    pool: str = ""
    since: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class EarlierState:
    """What a version reads of a state that knows of no causes."""

    policy_id: str
    left_alone: str = ""
    rule_held: str = ""
    node_first: EarlierNodeFirst | None = None


def put(policies: PolicyStore, number: int = 1) -> IdleState:
    policies.put_policy(make_policy(number))
    state = policies.find_state(policy_id(number))
    assert state is not None
    return state


def test_a_state_is_read_as_it_was_written(policies: PolicyStore) -> None:
    state = put(policies)
    written = policies.write_state(full_state(state))
    assert written == replace(full_state(state), rev=2)
    assert policies.find_state(state.policy_id) == written
    assert list(policies.list_states()) == [written]
    back = policies.write_state(replace(state, rev=2))
    assert policies.find_state(state.policy_id) == back == replace(state, rev=3)


def test_a_state_says_the_same_to_a_version_that_knows_of_no_causes() -> None:
    never = NodeFirst(NodeNeed.NEVER, why="needs 9000m CPU, 4000m free", cause=FitCause.CPU)
    state = replace(full_state(IdleState(policy_id(1))), node_first=never)
    earlier = Bodies(EarlierState).read(state_body(state))
    assert (earlier.left_alone, earlier.rule_held) == (state.left_alone, state.rule_held)
    assert earlier.node_first == EarlierNodeFirst(NodeNeed.NEVER, why=never.why)


def test_a_state_of_another_version_is_read_with_the_causes_that_are_known() -> None:
    known = full_state(IdleState(policy_id(1)))
    body = json.loads(
        state_body(replace(known, node_first=NodeFirst(NodeNeed.NEVER, why="no", cause=FitCause.CPU)))
    )
    causes = {"left_alone_cause": "the-moon", "rule_held_cause": "the-moon"}
    newer = Bodies(IdleState).read(
        json.dumps({**body, **causes, "node_first": {"need": "never", "cause": "the-moon"}})
    )
    assert (newer.left_alone_cause, newer.rule_held_cause) == (PolicyCause.OTHER, PolicyCause.OTHER)
    assert newer.node_first == NodeFirst(NodeNeed.NEVER, cause=FitCause.OTHER)
    without = {name: value for name, value in body.items() if name not in causes}
    before = Bodies(IdleState).read(json.dumps({**without, "node_first": {"need": "never", "why": "no"}}))
    assert before.left_alone == known.left_alone
    assert (before.left_alone_cause, before.rule_held_cause) == (PolicyCause.NONE, PolicyCause.NONE)
    assert before.node_first == NodeFirst(NodeNeed.NEVER, why="no")


def test_a_state_that_somebody_else_wrote_is_a_conflict(policies: PolicyStore, store: Store) -> None:
    state = put(policies)
    second = policies.write_state(state)
    for rev in (0, 1, 3):
        stale = replace(state, rev=rev, phase=Phase.ZERO)
        with pytest.raises(Conflict, match=f"rev 2, not {rev}"):
            policies.write_state(stale, [make_day()], [make_entry("1")])
        with pytest.raises(Conflict, match=f"rev 2, not {rev}"):
            policies.write_state(stale)
    assert policies.find_state(state.policy_id) == second
    assert list(policies.list_days()) == []
    assert store.read_log() == []


def test_a_state_without_policy_cannot_be_written(policies: PolicyStore) -> None:
    state = put(policies)
    policies.delete_policy(state.policy_id, 1)
    for gone in (state, replace(state, rev=0), replace(state, policy_id="nonsense")):
        with pytest.raises(Conflict, match="has no state"):
            policies.write_state(gone)
    assert list(policies.write_states([state])) == []
    assert list(policies.list_states()) == []


def test_state_days_and_entries_are_written_together(policies: PolicyStore, store: Store) -> None:
    state = put(policies)
    days = [make_day(date=f"2026-01-{number:02d}") for number in range(1, 32)]
    state = policies.write_state(state, days, [make_entry("1"), make_entry("2")])
    assert state.rev == 2
    assert list(policies.list_days()) == days
    assert [entry.id for entry in store.read_log()] == ["2", "1"]
    policies.write_state(state, days[:1], [make_entry("2"), make_entry("3")])
    assert [entry.id for entry in store.read_log()] == ["3", "2", "1"]
    assert policies.list_days()[0].scaled_to_zero_seconds == 2 * days[0].scaled_to_zero_seconds


def test_days_of_another_policy_are_not_written(policies: PolicyStore) -> None:
    state = put(policies)
    with pytest.raises(ValueError, match="cannot be written with"):
        policies.write_state(state, [make_day(2)])
    with pytest.raises(ValueError, match="2026-1-3"):
        policies.write_state(state, [make_day(date="2026-1-3")])
    with pytest.raises(ValueError, match="price that is not a number"):
        policies.write_state(state, [replace(make_day(), zero_price_seconds=Decimal("NaN"))])
    assert policies.find_state(state.policy_id) == state


def test_a_time_that_is_not_a_number_is_not_written(policies: PolicyStore) -> None:
    state = put(policies)
    with pytest.raises(ValueError, match="cannot be kept"):
        policies.write_state(replace(state, wakes=(WakeTime(1, float("nan")),)))
    assert policies.find_state(state.policy_id) == state


def test_many_states_are_written_each_under_its_own_condition(policies: PolicyStore) -> None:
    states = [put(policies, number) for number in range(MANY)]
    changed = [full_state(state) if number % 2 else state for number, state in enumerate(states)]
    moved_on = policies.write_state(replace(states[3], wake_count=9))
    policies.delete_policy(states[5].policy_id, 1)
    unknown = replace(states[0], policy_id=policy_id(MANY + 1))
    written = policies.write_states([*changed, unknown])
    expected = [replace(state, rev=2) for number, state in enumerate(changed) if number not in (3, 5)]
    assert list(written) == expected
    listed = {state.policy_id: state for state in policies.list_states()}
    assert listed == {state.policy_id: state for state in (*expected, moved_on)}


def test_many_states_may_be_none(policies: PolicyStore) -> None:
    assert list(policies.write_states([])) == []


def test_one_policy_has_one_state_in_a_write(policies: PolicyStore) -> None:
    state = put(policies)
    with pytest.raises(ValueError, match="two states"):
        policies.write_states([state, replace(state, rev=2)])
    assert policies.find_state(state.policy_id) == state


def test_a_list_is_current_however_often_it_is_read(policies: PolicyStore) -> None:
    state = put(policies)
    for _ in range(3):
        assert list(policies.list_states()) == [state]
        state = policies.write_state(replace(state, checked_at=state.checked_at + 1))
    assert list(policies.list_states()) == [state]


def test_more_entries_than_one_write_can_hold_are_refused_before_anything_is_written(
    policies: PolicyStore, store: Store
) -> None:
    state = put(policies)
    entries = [make_entry(f"{number:03d}") for number in range(ENTRIES_IN_WRITE + 1)]
    with pytest.raises(ValueError, match="log entries in one write"):
        policies.write_state(state, entries=entries)
    with pytest.raises(ValueError, match="log entries in one write"):
        policies.put_policy(make_policy(2), entries)
    with pytest.raises(ValueError, match="log entries in one write"):
        policies.delete_policy(state.policy_id, 1, entries)
    assert [policy.id for policy in policies.list_policies()] == [state.policy_id]
    assert list(policies.list_states()) == [state]
    assert store.read_log() == []
    assert policies.write_state(state, entries=entries[1:]).rev == 2
    assert len(store.read_log()) == ENTRIES_IN_WRITE
