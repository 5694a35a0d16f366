"""Policies in every store: created, read, listed, replaced, renamed, deleted; and keys that count once."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from ebbtide.errors import Conflict, NameTaken, Usage
from ebbtide.model.idle import IdleState
from ebbtide.model.policy import Operator, Policy, Rule
from ebbtide.ports import PolicyStore, Store
from tests.contract.stores.examples import make_entry
from tests.contract.stores.lab import START, StoreLab, policies_of
from tests.contract.stores.policy_examples import AT, POLICIES, make_policy, policy_id


@pytest.mark.parametrize("kind", POLICIES)
def test_a_policy_is_read_as_it_was_written(policies: PolicyStore, kind: str) -> None:
    written = policies.put_policy(POLICIES[kind])
    assert written == replace(POLICIES[kind], version=1)
    assert policies.find_policy(written.id) == written
    assert policies.find_policy_named(written.name) == written
    assert list(policies.list_policies()) == [written]


def test_a_new_policy_has_its_state_from_the_same_write(policies: PolicyStore) -> None:
    policies.put_policy(make_policy())
    first = IdleState(policy_id(1), rev=1, last_activity_at=AT, stretch_since=AT)
    assert policies.find_state(policy_id(1)) == first
    assert list(policies.list_states()) == [first]


def test_what_is_not_there_is_not_found(policies: PolicyStore) -> None:
    policies.put_policy(make_policy())
    for unknown in (policy_id(9), "", "nonsense", "x" * 3000, "\0"):
        assert policies.find_policy(unknown) is None
        assert policies.find_policy_named(unknown) is None
        assert policies.find_state(unknown) is None


def test_policies_are_listed_by_name_page_by_page(policies: PolicyStore) -> None:
    names = ["b", "a", "Z", "é", "a-1", "a.1", "ÿ", "😀", "10", "9"]
    for number, name in enumerate(names):
        policies.put_policy(make_policy(number, name))
    listed: list[str] = []
    while page := policies.list_policies(after=listed[-1] if listed else "", limit=3):
        assert len(page) <= 3
        listed += [policy.name for policy in page]
    assert listed == sorted(names)
    assert list(policies.list_policies(limit=0)) == []
    assert list(policies.list_policies(after="😀" * 300)) == []


def test_replacing_raises_the_version_and_leaves_the_state(policies: PolicyStore) -> None:
    first = policies.put_policy(make_policy())
    policies.write_state(IdleState(first.id, rev=1, wake_count=5))
    second = policies.put_policy(replace(first, max_replicas=3))
    assert (second.version, policies.find_policy(first.id)) == (2, replace(first, max_replicas=3, version=2))
    state = policies.find_state(first.id)
    assert state is not None
    assert state.wake_count == 5


def test_a_version_that_is_no_longer_stored_is_a_conflict(policies: PolicyStore, store: Store) -> None:
    first = policies.put_policy(make_policy())
    second = policies.put_policy(first)
    for stale in (replace(first, version=0), first, replace(first, version=9)):
        with pytest.raises(Conflict, match="version 2"):
            policies.put_policy(replace(stale, max_replicas=99), [make_entry("1")])
    with pytest.raises(Conflict, match="version 2, not 1"):
        policies.delete_policy(first.id, 1, [make_entry("2")])
    with pytest.raises(Conflict, match="no longer there"):
        policies.put_policy(replace(make_policy(2), version=1))
    assert list(policies.list_policies()) == [second]
    assert store.read_log() == []


def test_a_name_is_taken_once(policies: PolicyStore, store: Store) -> None:
    policies.put_policy(make_policy(1, "web"))
    other = policies.put_policy(make_policy(2, "data"))
    for attempt in (make_policy(3, "web"), replace(other, name="web")):
        with pytest.raises(NameTaken, match=f"another policy \\({policy_id(1)}\\) has the name 'web'"):
            policies.put_policy(attempt, [make_entry("1")])
    assert [policy.name for policy in policies.list_policies()] == ["data", "web"]
    assert policies.find_policy(policy_id(3)) is None
    assert policies.find_state(policy_id(3)) is None
    assert store.read_log() == []


def test_a_renamed_policy_gives_its_name_free(policies: PolicyStore) -> None:
    first = policies.put_policy(make_policy(1, "web"))
    renamed = policies.put_policy(replace(first, name="web-2"))
    assert policies.find_policy_named("web") is None
    assert policies.find_policy_named("web-2") == policies.find_policy(first.id) == renamed
    second = policies.put_policy(make_policy(2, "web"))
    assert list(policies.list_policies()) == [second, renamed]
    policies.put_policy(replace(second, name="web-1"))
    assert policies.put_policy(replace(renamed, name="web")).version == 3


def test_a_deleted_policy_is_gone_with_its_state_and_may_come_again(policies: PolicyStore) -> None:
    first = policies.put_policy(make_policy())
    policies.write_state(IdleState(first.id, rev=1))
    policies.delete_policy(first.id, 1)
    assert policies.find_policy(first.id) is None
    assert policies.find_policy_named(first.name) is None
    assert (policies.find_state(first.id), list(policies.list_states())) == (None, [])
    assert policies.put_policy(make_policy()).version == 1
    assert policies.find_state(first.id) == IdleState(first.id, rev=1, last_activity_at=AT, stretch_since=AT)


def test_deleting_what_is_gone_is_success_and_tells_nothing(policies: PolicyStore, store: Store) -> None:
    policies.put_policy(make_policy())
    policies.delete_policy(policy_id(1), 1, [make_entry("1")])
    policies.delete_policy(policy_id(1), 1, [make_entry("2")])
    policies.delete_policy("nonsense", 1)
    assert [entry.id for entry in store.read_log()] == ["1"]


def test_entries_are_written_with_the_policy(policies: PolicyStore, store: Store) -> None:
    store.append([make_entry("1", text="before")])
    first = policies.put_policy(make_policy(), [make_entry("1"), make_entry("2"), make_entry("2", x=1)])
    policies.put_policy(first, [make_entry("3", text="x" * 50_000)])
    assert [entry.id for entry in store.read_log()] == ["3", "2", "1"]
    assert store.find_entry("1") == make_entry("1", text="before")
    assert store.find_entry("2") == make_entry("2")
    assert store.find_entry("3") == make_entry("3", text="x" * 50_000)


def test_as_many_entries_as_one_write_takes(policies: PolicyStore, store: Store) -> None:
    entries = [make_entry(f"{number:02d}") for number in range(51)]
    with pytest.raises(ValueError, match="at most 50"):
        policies.put_policy(make_policy(), entries)
    first = policies.put_policy(make_policy(), entries[:50])
    policies.put_policy(first, entries[:50])
    assert len(store.read_log()) == 50


@pytest.mark.parametrize(
    ("unfit", "says"),
    [
        (replace(make_policy(), id="web"), "is a UUID"),
        (replace(make_policy(), id="00000000-0000-0000-0000-00000000000A"), "is a UUID"),
        (replace(make_policy(), name=""), "1 to 253 printable"),
        (replace(make_policy(), name="n" * 254), "1 to 253 printable"),
        (replace(make_policy(), name="a\0b"), "1 to 253 printable"),
        (replace(make_policy(), max_replicas=2**31), "max_replicas of policy 'policy-001' is too large"),
        (replace(make_policy(), rules=(Rule("x", Operator.GT, float("inf")),)), "not finite"),
        (replace(make_policy(), hourly_cost=Decimal("NaN")), "not finite"),
    ],
)
def test_what_cannot_be_kept_is_refused(policies: PolicyStore, unfit: Policy, says: str) -> None:
    with pytest.raises(Usage, match=says):
        policies.put_policy(unfit)
    assert list(policies.list_policies()) == []


def test_policies_of_different_clusters_do_not_meet(
    policies: PolicyStore, lab: StoreLab, cluster: str
) -> None:
    opened = lab.open(f"{cluster}-other")
    other = policies_of(opened)
    policies.put_policy(make_policy(), [make_entry("1")])
    assert [*other.list_policies(), *other.list_states()] == []
    assert other.put_policy(make_policy()).version == 1
    policies.delete_policy(policy_id(1), 1)
    assert len(other.list_policies()) == len(other.list_states()) == 1
    assert opened.read_log() == []
    assert policies.keep_once("k", "ours", START, START) == "ours"
    assert other.keep_once("k", "theirs", START, START) == "theirs"
    opened.close()


def test_a_key_keeps_its_first_value_until_it_runs_out(policies: PolicyStore) -> None:
    assert policies.keep_once("key", "first", START + 60, START) == "first"
    assert policies.keep_once("key", "second", START + 90, START + 60) == "first"
    assert policies.keep_once("key#2", "second", START + 90, START) == "second"
    assert policies.keep_once("key", "third", START + 90, START + 61) == "third"
    assert policies.keep_once("key", "fourth", START + 99, START + 90) == "third"


def test_long_keys_and_values_are_kept(policies: PolicyStore) -> None:
    key, value = "k – “" * 100, "v" * 20_000
    assert policies.keep_once(key, value, START + 60, START) == value
    assert policies.keep_once(key, "other", START + 60, START) == value
