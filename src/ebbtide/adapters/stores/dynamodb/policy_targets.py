"""Which enabled policy has which target, on DynamoDB.

A policy may have a hundred workloads and a transaction holds a hundred items, so targets are gathered in a
few items, each a JSON object from target to policy id. An item is read, changed and written back under the
condition that it did not change meanwhile, in the transaction that writes the policy: of two writers one is
refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from ebbtide import typed
from ebbtide.adapters.stores.codec.policies import targets_of
from ebbtide.adapters.stores.dynamodb.policy_table import Keys, PolicyTable, Step, unchanged
from ebbtide.adapters.stores.policy_guards import target_refusal
from ebbtide.errors import UNREADABLE, StoreUnusable
from ebbtide.model.policy import Policy

SHARDS = 32
"""With fifty log entries and the policy itself they fit into one transaction, and ten thousand policies into
the items."""
Find = Callable[[str], Policy | None]


@dataclass(frozen=True, slots=True)
class DynamoTargets:
    table: PolicyTable
    keys: Keys
    find: Find
    """A policy by its id."""

    def steps(self, before: Policy | None, after: Policy | None) -> list[Step]:
        """The steps that give back what a policy had and claim what it has now."""
        policy = after or before
        assert policy is not None
        wanted = frozenset(targets_of(after)) if after else frozenset()
        held = frozenset(targets_of(before)) if before else frozenset()
        shards = sorted({_shard(target) for target in wanted | held})
        return [step for shard in shards for step in self._of_shard(shard, policy, wanted, held)]

    def _of_shard(
        self, shard: str, policy: Policy, wanted: frozenset[str], held: frozenset[str]
    ) -> list[Step]:
        item = self.table.get(self.keys.targets(shard))
        claims = _read(item["body"]) if item else {}
        mine = sorted(target for target in wanted if _shard(target) == shard)
        for target in mine:
            self._refuse_taken(policy, target, claims.get(target, policy.id))
        changed = {target: holder for target, holder in claims.items() if holder != policy.id}
        changed |= dict.fromkeys(mine, policy.id)
        # What is new to it is written even where the claim is there: another may just be taking it over.
        if changed == claims and held.issuperset(mine):
            return []
        return [self._put(shard, item.get("rev", 0), changed)]

    def _refuse_taken(self, policy: Policy, target: str, holder: str) -> None:
        other = self.find(holder) if holder != policy.id else None
        # A version that does not know of claims may have disabled, moved or deleted the holder since.
        if other is not None and target in targets_of(other):
            raise target_refusal(policy, target, other)

    def _put(self, shard: str, rev: int, claims: dict[str, str]) -> Step:
        body = msgspec.json.encode(dict(sorted(claims.items()))).decode()
        return self.table.put(self.keys.targets(shard), {"rev": rev + 1, "body": body}, unchanged(rev))


def first_shard(policy: Policy) -> str:
    """Of the items that hold its targets; "" where it claims none."""
    return min((_shard(target) for target in targets_of(policy)), default="")


def _shard(target: str) -> str:
    return f"{zlib.crc32(target.encode()) % SHARDS:02d}"


def _read(body: str) -> dict[str, str]:
    try:
        return typed.decode(body, dict[str, str])
    except UNREADABLE as error:
        raise StoreUnusable(
            f"the targets of the policies cannot be read ({error}): they were left as they are; restore the "
            "table from a backup"
        ) from error
