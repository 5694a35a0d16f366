"""Many policies in one call, in every store: each under its own conditions, each with its own answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ebbtide.adapters.stores.guards import each_alone
from ebbtide.errors import Conflict, EbbtideError, NameTaken, TargetTaken, Unanswered, Usage
from ebbtide.model.idle import IdleState
from ebbtide.model.policy import Policy
from ebbtide.ports import PolicyStore, Store
from tests.contract.stores.examples import make_entry
from tests.contract.stores.lab import StoreLab, policies_of
from tests.contract.stores.policy_examples import AT, WEB, make_policy, policy_id

MANY = 230
"""More than go into one transaction of any store."""


def named(number: int, *workloads: str) -> Policy:
    policy = make_policy(number, f"p{number:03d}")
    refs = tuple(replace(WEB, name=each) for each in workloads or (f"w{number:03d}",))
    return replace(policy, target=replace(policy.target, workloads=refs))


def kinds(outcomes: Sequence[Policy | EbbtideError]) -> list[type]:
    return [type(each) for each in outcomes]


def test_many_new_policies_are_written_each_with_its_state_and_entry(
    policies: PolicyStore, store: Store
) -> None:
    wanted = [named(number) for number in range(MANY)]
    puts = [(policy, [make_entry(f"{number:03d}")]) for number, policy in enumerate(wanted)]
    assert policies.put_policies(puts) == [replace(policy, version=1) for policy in wanted]
    assert list(policies.list_policies(limit=MANY)) == [replace(policy, version=1) for policy in wanted]
    assert {state.policy_id for state in policies.list_states()} == {policy.id for policy in wanted}
    assert policies.find_state(policy_id(7)) == IdleState(
        policy_id(7), rev=1, last_activity_at=AT, stretch_since=AT
    )
    assert len(store.read_log(limit=2 * MANY)) == MANY


def test_nothing_to_write_is_nothing_written(policies: PolicyStore) -> None:
    assert list(policies.put_policies([])) == []
    assert list(policies.list_policies()) == []


def test_new_and_changed_ones_go_together(policies: PolicyStore) -> None:
    known = policies.put_policy(named(1))
    changed = replace(known, max_replicas=9)
    assert policies.put_policies([(changed, []), (named(2), [])]) == [
        replace(changed, version=2),
        replace(named(2), version=1),
    ]
    assert policies.find_policy(known.id) == replace(changed, version=2)


def test_one_that_is_refused_keeps_none_of_the_others_out(policies: PolicyStore, store: Store) -> None:
    first = policies.put_policy(named(1))
    taken_name = replace(named(2), name="p001")
    taken_target = named(3, "w001")
    stale = replace(first, version=7)
    nameless = replace(named(4), name="")
    wanted = [taken_name, taken_target, stale, nameless, named(5)]
    outcomes = policies.put_policies([(each, [make_entry(each.id)]) for each in wanted])
    assert kinds(outcomes) == [NameTaken, TargetTaken, Conflict, Usage, Policy]
    assert "'p001'" in str(outcomes[0])
    assert all(name in str(outcomes[1]) for name in ("w001", "p001"))
    assert [policy.name for policy in policies.list_policies()] == ["p001", "p005"]
    assert [entry.id for entry in store.read_log()] == [policy_id(5)]
    assert policies.find_state(policy_id(2)) is None


def test_of_two_in_one_call_that_want_one_target_one_is_refused(policies: PolicyStore) -> None:
    outcomes = policies.put_policies([(named(1, "web"), []), (named(2, "web"), []), (named(3), [])])
    assert kinds(outcomes) == [Policy, TargetTaken, Policy]


def test_a_policy_twice_in_one_call_is_refused(policies: PolicyStore) -> None:
    with pytest.raises(ValueError, match="twice"):
        policies.put_policies([(named(1), []), (replace(named(1), name="other"), [])])
    assert list(policies.list_policies()) == []


@pytest.mark.parametrize("times", [1, 2])
def test_they_are_written_once_where_the_reply_was_lost(
    lossy_store: Store, lab: StoreLab, times: int
) -> None:
    policies = policies_of(lossy_store)
    policies.list_policies()
    lab.lose_reply_to(*["policy transaction", "its repeated creation"][:times])
    wanted = [named(number) for number in range(3)]
    puts = [(policy, [make_entry(f"{number}")]) for number, policy in enumerate(wanted)]
    assert policies.put_policies(puts) == [replace(policy, version=1) for policy in wanted]
    assert list(policies.list_policies()) == [replace(policy, version=1) for policy in wanted]
    assert len(lossy_store.read_log()) == 3


def test_once_the_store_fails_the_rest_is_not_tried() -> None:
    tried: list[int] = []

    def put(number: int) -> Policy:
        tried.append(number)
        if number == 1:
            raise Conflict("somebody else wrote first")
        if number == 2:
            raise Unanswered("no reply")
        return named(number)

    outcomes = each_alone(put, range(5))
    assert kinds(outcomes) == [Policy, Conflict, Unanswered, Unanswered, Unanswered]
    assert tried == [0, 1, 2]
