"""A write of policies, states or days whose reply was lost is done, and done once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.errors import Conflict, Unanswered
from ebbtide.model.idle import IdleState
from ebbtide.ports import PolicyStore, Store
from tests.contract.stores.examples import make_entry
from tests.contract.stores.lab import START, MemoryLab, StoreLab, policies_of
from tests.contract.stores.policy_examples import AT, make_day, make_policy, policy_id

once_and_twice = pytest.mark.parametrize("times", [1, 2])


@pytest.fixture
def lossy(lossy_store: Store) -> PolicyStore:
    found = policies_of(lossy_store)
    found.list_policies()
    return found


def state_of(policies: PolicyStore, number: int = 1) -> IdleState:
    state = policies.find_state(policy_id(number))
    assert state is not None
    return state


@once_and_twice
def test_a_policy_is_created_once(lossy: PolicyStore, lossy_store: Store, lab: StoreLab, times: int) -> None:
    lab.lose_reply_to(*["policy transaction", "its repeated creation"][:times])
    created = lossy.put_policy(make_policy(), [make_entry("1")])
    assert (created.version, list(lossy.list_policies())) == (1, [created])
    assert state_of(lossy).rev == 1
    assert len(lossy_store.read_log()) == 1


@once_and_twice
def test_a_policy_is_renamed_once(lossy: PolicyStore, lab: StoreLab, times: int) -> None:
    created = lossy.put_policy(make_policy())
    lab.lose_reply_to(*["policy transaction", "its repeated renaming"][:times])
    renamed = lossy.put_policy(replace(created, name="other"), [make_entry("1")])
    assert (renamed.version, list(lossy.list_policies())) == (2, [renamed])


def test_a_policy_is_deleted_once(lossy: PolicyStore, lossy_store: Store, lab: StoreLab) -> None:
    lossy.put_policy(make_policy())
    lab.lose_reply_to("policy transaction")
    lossy.delete_policy(policy_id(1), 1, [make_entry("1")])
    assert [*lossy.list_policies(), *lossy.list_states()] == []
    assert len(lossy_store.read_log()) == 1


@once_and_twice
def test_a_state_is_written_once(lossy: PolicyStore, lab: StoreLab, times: int) -> None:
    lossy.put_policy(make_policy())
    state = state_of(lossy)
    lab.lose_reply_to(*["write state"] * times)
    written = lossy.write_state(replace(state, wake_count=1))
    assert state_of(lossy) == written == replace(state, wake_count=1, rev=2)


@once_and_twice
def test_days_are_added_once(lossy: PolicyStore, lossy_store: Store, lab: StoreLab, times: int) -> None:
    lossy.put_policy(make_policy())
    state = lossy.write_state(state_of(lossy), [make_day()])
    lab.lose_reply_to(*["policy transaction", "its repeated state"][:times])
    assert lossy.write_state(state, [make_day()], [make_entry("1")]).rev == 3
    (row,) = lossy.list_days()
    assert row.zero_price_seconds == 2 * make_day().zero_price_seconds
    assert len(lossy_store.read_log()) == 1


@once_and_twice
def test_many_states_are_written_once(lossy: PolicyStore, lab: StoreLab, times: int) -> None:
    for number in range(3):
        lossy.put_policy(make_policy(number))
    states = [replace(state_of(lossy, number), checked_at=AT) for number in range(3)]
    stale = replace(states[2], rev=9)
    lab.lose_reply_to(*["write states"] * times)
    written = lossy.write_states([*states[:2], stale])
    assert list(written) == [replace(state, rev=2) for state in states[:2]]
    assert {state.policy_id: state.rev for state in lossy.list_states()} == {
        policy_id(0): 2,
        policy_id(1): 2,
        policy_id(2): 1,
    }


def test_a_ledger_is_replaced_once(lossy: PolicyStore, lab: StoreLab) -> None:
    lab.lose_reply_to("policy transaction")
    lossy.replace_days(policy_id(1), [make_day()])
    assert list(lossy.list_days()) == [make_day()]


def test_a_key_whose_reply_was_lost_has_our_value(lossy: PolicyStore, lab: StoreLab) -> None:
    lab.lose_reply_to("keep once")
    assert lossy.keep_once("key", "ours", START + 9, START) == "ours"
    assert lossy.keep_once("key", "theirs", START + 9, START) == "ours"


def test_a_refusal_stays_one_although_its_reply_was_lost(lossy: PolicyStore, lab: StoreLab) -> None:
    lossy.put_policy(make_policy())
    state = state_of(lossy)
    theirs = lossy.write_state(replace(state, wake_count=7))
    lab.lose_reply_to("write state")
    with pytest.raises(Conflict):
        lossy.write_state(replace(state, wake_count=8))
    assert state_of(lossy) == theirs


def test_nobody_can_tell_once_others_have_written_twice(lossy: PolicyStore, lab: StoreLab) -> None:
    """A call inside one process cannot lose its reply, so there it is a plain conflict."""
    lossy.put_policy(make_policy())
    state = state_of(lossy)
    for _ in range(2):
        state = lossy.write_state(state)
    lab.lose_reply_to("write state")
    told_apart = Conflict if isinstance(lab, MemoryLab) else Unanswered
    with pytest.raises(told_apart):
        lossy.write_state(replace(state, rev=1))
    assert state_of(lossy) == state
