"""One enabled policy for a target, in every store, also where two are written at the same moment; and keys
that are used up together with a state."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from ebbtide.errors import Conflict, KeyUsed, NameTaken, TargetTaken
from ebbtide.model.idle import IdleState, Once
from ebbtide.model.policy import Policy, Target
from ebbtide.ports import PolicyStore, Store
from tests.contract.stores.examples import make_entry
from tests.contract.stores.lab import START, StoreLab, policies_of
from tests.contract.stores.policy_examples import DATA, WEB, make_day, make_policy, policy_id


def of(number: int, *targets: object, **changes: object) -> Policy:
    return replace(make_policy(number), target=Target(targets), **changes)  # type: ignore[arg-type]


def test_a_second_enabled_policy_for_a_target_is_refused(policies: PolicyStore, store: Store) -> None:
    policies.put_policy(of(1, WEB))
    with pytest.raises(TargetTaken, match="Deployment/shop/web is the target of policy policy-001 already"):
        policies.put_policy(of(2, DATA, WEB), [make_entry("1")])
    assert policies.find_policy(policy_id(2)) is None
    assert policies.find_state(policy_id(2)) is None
    assert store.read_log() == []
    policies.put_policy(of(3, DATA))
    with pytest.raises(NameTaken):
        policies.put_policy(replace(of(4, WEB), name="policy-001"))


def test_a_pool_has_one_enabled_policy_too(policies: PolicyStore) -> None:
    pool = replace(make_policy(1), target=Target(pool="gpu"))
    policies.put_policy(pool)
    with pytest.raises(TargetTaken, match="pool/gpu"):
        policies.put_policy(replace(make_policy(2), target=Target(pool="gpu")))
    policies.put_policy(replace(make_policy(2), target=Target(pool="cpu")))


def test_a_policy_that_is_disabled_moved_or_deleted_gives_its_target_back(policies: PolicyStore) -> None:
    first = policies.put_policy(of(1, WEB))
    second = policies.put_policy(of(2, WEB, enabled=False))
    with pytest.raises(TargetTaken):
        policies.put_policy(replace(second, enabled=True))
    disabled = policies.put_policy(replace(first, enabled=False))
    second = policies.put_policy(replace(second, enabled=True))
    with pytest.raises(TargetTaken):
        policies.put_policy(replace(disabled, enabled=True))
    policies.put_policy(replace(second, target=Target((DATA,))))
    first = policies.put_policy(replace(disabled, enabled=True))
    policies.delete_policy(first.id, first.version)
    policies.put_policy(of(3, WEB))


def test_a_policy_may_be_written_again_with_more_or_fewer_of_its_targets(policies: PolicyStore) -> None:
    both = policies.put_policy(of(1, WEB, DATA))
    one = policies.put_policy(replace(both, target=Target((DATA,))))
    policies.put_policy(of(2, WEB))
    with pytest.raises(TargetTaken):
        policies.put_policy(replace(one, target=Target((WEB, DATA))))
    assert policies.put_policy(replace(one, max_replicas=3)).version == 3


def test_a_policy_of_a_hundred_workloads_gets_a_hundred_others(policies: PolicyStore, store: Store) -> None:
    before = tuple(replace(WEB, name=f"a-{number}") for number in range(100))
    after = tuple(replace(WEB, name=f"b-{number}") for number in range(100))
    first = policies.put_policy(of(1, *before), [make_entry(f"{number:02d}") for number in range(50)])
    policies.put_policy(
        replace(first, target=Target(after)), [make_entry(f"x{number:02d}") for number in range(50)]
    )
    policies.put_policy(of(2, *before))
    assert len(store.read_log(limit=200)) == 100


def test_of_two_that_are_written_at_the_same_moment_one_is_refused(lab: StoreLab, cluster: str) -> None:
    opened = [lab.open(cluster) for _ in range(2)]
    start = Barrier(2)

    def put(number: int) -> str:
        start.wait()
        try:
            policies_of(opened[number % 2]).put_policy(of(number, WEB))
        except TargetTaken:
            return "taken"
        return "written"

    with ThreadPoolExecutor(2) as pool:
        for turn in range(5):
            pair = (2 * turn + 1, 2 * turn + 2)
            assert sorted(pool.map(put, pair)) == ["taken", "written"]
            (only,) = policies_of(opened[0]).list_policies()
            policies_of(opened[0]).delete_policy(only.id, only.version)
    for store in opened:
        store.close()


def test_a_policy_is_written_together_with_its_state_or_not_at_all(policies: PolicyStore) -> None:
    first = policies.put_policy(of(1, WEB))
    state = policies.write_state(IdleState(first.id, rev=1, wake_count=3))
    with pytest.raises(Conflict):
        policies.put_policy(replace(first, target=Target((DATA,))), (), replace(state, rev=1))
    assert policies.find_policy(first.id) == first
    policies.put_policy(of(2, DATA, enabled=False))
    moved = policies.put_policy(replace(first, target=Target((DATA,))), (), replace(state, wake_count=4))
    found = policies.find_state(first.id)
    assert (policies.find_policy(first.id), found) == (moved, replace(state, rev=3, wake_count=4))
    policies.put_policy(of(3, WEB))


def once(value: str = "mine", key: str = "webhook#1", now: int = START) -> Once:
    return Once(key, value, now + 60, now)


def test_a_key_is_used_up_with_the_state_that_it_is_written_with(policies: PolicyStore, store: Store) -> None:
    policies.put_policy(make_policy())
    state = policies.write_state(IdleState(policy_id(1), rev=1), [make_day()], [make_entry("1")], once())
    with pytest.raises(KeyUsed, match="webhook#1 was used before"):
        policies.write_state(state, [make_day()], [make_entry("2")], once("theirs"))
    assert policies.find_state(policy_id(1)) == state
    assert [entry.id for entry in store.read_log()] == ["1"]
    assert len(policies.list_days()) == 1
    assert policies.keep_once("webhook#1", "other", START + 60, START) == "mine"
    policies.write_state(state, (), (), once("again", now=START + 61))


def test_a_key_stays_unused_where_its_state_could_not_be_written(policies: PolicyStore) -> None:
    policies.put_policy(make_policy())
    with pytest.raises(Conflict, match="somebody else wrote first"):
        policies.write_state(IdleState(policy_id(1), rev=7), (), (), once())
    policies.write_state(IdleState(policy_id(1), rev=1), (), (), once())


def test_a_lost_reply_to_a_state_with_its_key_is_recognised(lab: StoreLab, cluster: str) -> None:
    store = lab.open_lossy(cluster)
    policies = policies_of(store)
    policies.put_policy(make_policy())
    lab.lose_reply_to("policy transaction")
    written = policies.write_state(IdleState(policy_id(1), rev=1), (), (), once())
    assert (written.rev, lab.still_to_lose) == (2, 0)
    assert policies.find_state(policy_id(1)) == written
    store.close()
