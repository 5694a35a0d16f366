"""What DynamoDB is asked: every read sees the last write, and every list is read to its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ebbtide.adapters.stores.dynamodb.store import DynamoStore
from ebbtide.model.log import LogKind
from ebbtide.model.record import CLUSTER_LEASE
from tests.contract.stores.examples import make_entry
from tests.contract.stores.lab import DynamoLab
from tests.policy_harness import make_policy, make_ref, policy_id

READS = ("GetItem", "Query")


class Watched:
    """A store, the reads that it made, and how few items a page of theirs may have."""

    def __init__(self, store: DynamoStore) -> None:
        self.store = store
        self.asked: list[dict[str, Any]] = []
        self.page = 0
        for name in READS:
            store._client.meta.events.register(f"provide-client-params.dynamodb.{name}", self._ask)

    def _ask(self, params: dict[str, Any], **_: Any) -> dict[str, Any]:
        self.asked.append(params)
        small = "KeyConditionExpression" in params and self.page
        return {**params, "Limit": min(self.page, params.get("Limit", self.page))} if small else params


@pytest.fixture
def watched(dynamodb_lab: DynamoLab, cluster: str) -> Iterator[Watched]:
    store = dynamodb_lab.open(cluster)
    assert isinstance(store, DynamoStore)
    yield Watched(store)
    store.close()


def test_every_read_is_consistent(watched: Watched) -> None:
    """One that is not may show a record, a lease or a policy as it was before the last write."""
    store, policies = watched.store, watched.store.policies()
    lease = store.acquire(CLUSTER_LEASE, "me", 60)
    record = store.load()
    entry = make_entry("e1", subject="s1")
    store.write(record, lease, [entry])
    store.load()
    store.find_entry(entry.id)
    store.read_log(limit=5)
    store.read_log([LogKind.DECISION], limit=5)
    store.read_log(subject=entry.subject, limit=5)
    policies.put_policy(make_policy())
    policies.find_policy(policy_id())
    policies.find_state(policy_id())
    policies.list_policies()
    policies.list_states()
    policies.keep_once("k", "v", 10**10, 1)
    kinds = {"Key" in params for params in watched.asked}
    assert kinds == {True, False}, "both single items and lists were read"
    assert [params for params in watched.asked if params.get("ConsistentRead") is not True] == []


def test_a_list_of_several_pages_is_read_to_its_end(watched: Watched) -> None:
    store, policies = watched.store, watched.store.policies()
    names = [f"p{n}" for n in range(5)]
    for number, name in enumerate(names):
        policies.put_policy(make_policy(name, make_ref(name), id=policy_id(number)))
    record = store.load()
    lease = store.acquire(CLUSTER_LEASE, "me", 60)
    entries = [make_entry(f"e{n}") for n in range(5)]
    for entry in entries:
        record = store.write(record, lease, [entry])
    watched.page = 2
    assert [policy.name for policy in policies.list_policies()] == names
    assert len(policies.list_states()) == 5
    assert sorted(found.id for found in store.read_log(limit=50)) == [entry.id for entry in entries]
