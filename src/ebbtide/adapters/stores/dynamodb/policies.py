"""Policies, states and ledger on DynamoDB, in a table of their own next to those of the store.

Everything that belongs together is one transaction, log entries included. A nonce in each item tells our own
write from somebody else's after a lost reply.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from ebbtide.adapters.stores import guards
from ebbtide.adapters.stores.codec import policies as codec
from ebbtide.adapters.stores.codec.policies import checked_days, day_range
from ebbtide.adapters.stores.codec.record import item_key
from ebbtide.adapters.stores.dynamodb.log import DynamoLog
from ebbtide.adapters.stores.dynamodb.policy_table import (
    NEW,
    SHARDS,
    Condition,
    DynamoLedger,
    DynamoTargets,
    Item,
    Keys,
    PolicyTable,
    Step,
    first_shard,
)
from ebbtide.adapters.stores.dynamodb.record import from_wire_item
from ebbtide.adapters.stores.dynamodb.tables import TTL_ATTRIBUTE, ConditionFailed, Tables
from ebbtide.adapters.stores.guards import repeat
from ebbtide.errors import (
    Conflict,
    EbbtideError,
    StoreCause,
    StoreUnusable,
    TargetTaken,
    Throttled,
    Unanswered,
)
from ebbtide.model.idle import Days, IdleState, LedgerDay, Once
from ebbtide.model.log import Entries, LogEntry
from ebbtide.model.policy import Policy
from ebbtide.ports import Clock, PolicyPut

STEPS_IN_TRANSACTION = 100
KEY_PLACE = 1
"""Of the key that a state is written with, among the steps."""
RENAMED_AT_MOST = 8
LAPSED = f"attribute_not_exists(pk) OR {TTL_ATTRIBUTE} < :now"


class DynamoPolicies:
    def __init__(self, client: Any, tables: Tables, clock: Clock, cluster: str = "cluster") -> None:
        self._tables = tables
        self._clock = clock
        self._keys = Keys(cluster)
        self._table = PolicyTable(client, tables, clock, DynamoLog(client, tables.logs, item_key(cluster)))
        self._ledger = DynamoLedger(self._table, self._keys)
        self._targets = DynamoTargets(self._table, self._keys, self.find_policy)
        self._policies = codec.Bodies(Policy)
        self._states = codec.Bodies(IdleState)

    def list_policies(self, after: str = "", limit: int = 100) -> Sequence[Policy]:
        if limit < 1:
            return []
        pk = self._keys.policy("").pk
        bodies = self._table.query(pk, "body", (after[: codec.LONGEST_NAME], ""), limit)
        return self._policies.read_all(bodies)

    def find_policy(self, policy_id: str) -> Policy | None:
        item = self._item_of(policy_id)
        return self._policies.read(item["body"]) if item else None

    def find_policy_named(self, name: str) -> Policy | None:
        item = self._item_named(name)
        return self._policies.read(item["body"]) if item else None

    def put_policy(
        self, policy: Policy, entries: Sequence[LogEntry] = (), state: IdleState | None = None
    ) -> Policy:
        codec.refuse_too_many(entries)
        written = codec.next_policy(policy)
        nonce = uuid.uuid4().hex
        item = {
            "id": policy.id,
            "nonce": nonce,
            "body": codec.policy_body(written),
            **codec.policy_columns(written),
        }
        puts = self._prepare(entries)

        def put(reply_lost: bool) -> Policy:
            before = self._item_of(policy.id) if policy.version else {}
            steps = self._replacing(policy, item, before) if policy.version else self._creating(policy, item)
            if state is not None:
                at_rev = Condition("rev = :rev", {"rev": state.rev})
                steps.append(self._put_state(codec.next_state(state), nonce, at_rev))
            known = self._policies.read(before["body"]) if before else None
            try:
                claims = self._targets.steps(known, written)
                self._table.write([*steps, *claims], puts)
            except (ConditionFailed, TargetTaken) as refused:
                self._settle_policy(policy, guards.PolicyAttempt(nonce, reply_lost), refused, len(steps))
            return written

        return repeat(self._clock, put)

    def put_policies(self, puts: Sequence[PolicyPut]) -> Sequence[Policy | EbbtideError]:
        """At once, except those that claim targets of one item: they would only get in each other's way."""
        codec.refuse_twice(policy.id for policy, _ in puts)
        together: dict[str, list[int]] = {}
        for place, (policy, _) in enumerate(puts):
            together.setdefault(first_shard(policy), []).append(place)

        def put(places: list[int]) -> list[Policy | EbbtideError]:
            return guards.each_alone(lambda place: self.put_policy(*puts[place]), places)

        outcomes = self._table.at_once(put, together.values())
        found = {
            place: outcome
            for places, some in zip(together.values(), outcomes, strict=True)
            for place, outcome in zip(places, some, strict=True)
        }
        return [found[place] for place in range(len(puts))]

    def delete_policy(self, policy_id: str, version: int, entries: Sequence[LogEntry] = ()) -> None:
        codec.refuse_too_many(entries)
        puts = self._prepare(entries)

        def delete(_: bool) -> None:
            item = self._item_of(policy_id)
            if not item:
                return
            steps = [
                self._table.delete(self._keys.policy(item["name"]), _at_version(policy_id, version)),
                self._table.delete(self._keys.pointer(policy_id)),
                self._table.delete(self._keys.state(policy_id)),
                *self._targets.steps(self._policies.read(item["body"]), None),
            ]
            try:
                self._table.write(steps, puts)
            except ConditionFailed:
                stored = _stored(self._item_of(policy_id), "version")
                if stored.number == version:
                    raise _targets_are_busy() from None
                if stored is not guards.NOT_THERE:
                    raise guards.version_refusal(policy_id, version, stored) from None

        repeat(self._clock, delete)

    def find_state(self, policy_id: str) -> IdleState | None:
        item = self._table.get(self._keys.state(policy_id)) if codec.is_policy_id(policy_id) else {}
        return self._states.read(item["body"]) if item else None

    def list_states(self) -> Sequence[IdleState]:
        found = self._table.at_once(
            lambda shard: self._table.query(self._keys.states(shard), "body"), range(SHARDS)
        )
        return self._states.read_all([body for bodies in found for body in bodies])

    def write_state(
        self, state: IdleState, days: Days = (), entries: Entries = (), once: Once | None = None
    ) -> IdleState:
        codec.refuse_too_many(entries)
        checked, puts = checked_days(state.policy_id, days), self._prepare(entries)
        written = codec.next_state(state)
        nonce = uuid.uuid4().hex
        steps = [self._put_state(written, nonce, Condition("rev = :rev", {"rev": state.rev}))]
        steps += [self._keep(once)] if once is not None else []

        def write(reply_lost: bool) -> IdleState:
            try:
                self._table.write([*steps, *self._ledger.add(state.policy_id, checked)], puts)
            except ConditionFailed as refused:
                if once is not None and refused.at == frozenset({KEY_PLACE}):
                    raise guards.key_refusal(once.key) from None
                self._settle_state(state, guards.PolicyAttempt(nonce, reply_lost))
            return written

        return repeat(self._clock, write)

    def write_states(self, states: Sequence[IdleState]) -> Sequence[IdleState]:
        def write(state: IdleState) -> IdleState | EbbtideError:
            try:
                return self.write_state(state)
            except EbbtideError as error:
                return error

        outcomes = self._table.at_once(write, codec.one_for_each(states))
        written = [each for each in outcomes if isinstance(each, IdleState)]
        for error in outcomes:
            if isinstance(error, Unanswered):
                raise error
            if not written and isinstance(error, EbbtideError) and not isinstance(error, Conflict):
                raise error
        return written

    def list_days(self, policy_id: str = "", first: str = "", last: str = "") -> Sequence[LedgerDay]:
        return self._ledger.list_days(policy_id, *day_range(first, last))

    def replace_days(self, policy_id: str, days: Sequence[LedgerDay]) -> None:
        """One transaction for a ledger of up to eight years; a longer one in several, each of which may be
        repeated."""
        checked = checked_days(policy_id, days)

        def write(_: bool) -> None:
            steps = [
                self._table.put(self._keys.owner(policy_id), {}),
                *self._ledger.replace(policy_id, checked),
            ]
            for start in range(0, len(steps), STEPS_IN_TRANSACTION):
                try:
                    self._table.write(steps[start : start + STEPS_IN_TRANSACTION])
                except ConditionFailed:
                    raise _ledger_is_busy(policy_id) from None

        repeat(self._clock, write)

    def keep_once(self, key: str, value: str, expires_at: int, now: int) -> str:
        step = self._keep(Once(key, value, expires_at, now))

        def keep(_: bool) -> str:
            try:
                self._table.write([step])
            except ConditionFailed as refused:
                return str(from_wire_item(refused.item)["value"])
            return value

        return repeat(self._clock, keep)

    def _keep(self, once: Once) -> Step:
        item = {"value": once.value, TTL_ATTRIBUTE: once.expires_at}
        return self._table.put(self._keys.once(once.key), item, Condition(LAPSED, {"now": once.now}))

    def _creating(self, policy: Policy, item: Item) -> list[Step]:
        return [
            self._table.put(self._keys.policy(policy.name), item, NEW),
            self._table.put(self._keys.pointer(policy.id), {"name": policy.name}, NEW),
            self._put_state(codec.first_state(policy), item["nonce"]),
            self._table.put(self._keys.owner(policy.id), {}),
        ]

    def _replacing(self, policy: Policy, item: Item, before: Item) -> list[Step]:
        at_version = _at_version(policy.id, policy.version)
        if not before:
            raise guards.version_refusal(policy.id, policy.version, guards.NOT_THERE)
        if before["name"] == policy.name:
            return [self._table.put(self._keys.policy(policy.name), item, at_version)]
        return [
            self._table.delete(self._keys.policy(before["name"]), at_version),
            self._table.put(self._keys.policy(policy.name), item, NEW),
            self._table.put(self._keys.pointer(policy.id), {"name": policy.name}),
        ]

    def _put_state(self, state: IdleState, nonce: str, condition: Condition | None = None) -> Step:
        item = {
            "rev": state.rev,
            "nonce": nonce,
            "body": codec.state_body(state),
            **codec.state_columns(state),
        }
        return self._table.put(self._keys.state(state.policy_id), item, condition)

    def _settle_policy(
        self,
        policy: Policy,
        attempt: guards.PolicyAttempt,
        refused: ConditionFailed | TargetTaken,
        places: int,
    ) -> None:
        """Say why it was refused; return when it was not, but is our own of which the reply was lost.
        `places` is how many steps come before those of the targets."""
        stored = _stored(self._item_of(policy.id), "version")
        if attempt.was_carried_out(stored, policy.version, f"policy {policy.name!r}"):
            return
        holder = self._item_named(policy.name).get("id", "")
        if said := guards.policy_refusal(policy, stored, holder):
            raise said
        if isinstance(refused, TargetTaken):
            raise refused
        if min(refused.at) >= places:
            raise _targets_are_busy()
        raise guards.changed_meanwhile(f"policy {policy.name!r}")

    def _settle_state(self, state: IdleState, attempt: guards.PolicyAttempt) -> None:
        stored = _stored(self._table.get(self._keys.state(state.policy_id)), "rev")
        if attempt.was_carried_out(stored, state.rev, f"the state of policy {state.policy_id}"):
            return
        if stored.number == state.rev and stored is not guards.NOT_THERE:
            raise _ledger_is_busy(state.policy_id)
        raise guards.state_refusal(state, stored)

    def _item_of(self, policy_id: str) -> Item:
        """By way of its name; asked again when it was renamed in between."""
        for _ in range(RENAMED_AT_MOST):
            pointer = self._table.get(self._keys.pointer(policy_id)) if codec.is_policy_id(policy_id) else {}
            if not pointer:
                return {}
            item = self._item_named(pointer["name"])
            if item.get("id") == policy_id:
                return item
        raise StoreUnusable(
            StoreCause.CORRUPT,
            f"the table of policies says that {policy_id} is named {pointer['name']!r}, but it is not there: "
            "nothing was touched; restore the table to a moment when it was",
        )

    def _item_named(self, name: str) -> Item:
        return self._table.get(self._keys.policy(name)) if 0 < len(name) <= codec.LONGEST_NAME else {}

    def _prepare(self, entries: Sequence[LogEntry]) -> list[Step]:
        return self._table.prepare(entries, self._tables.expires(int(self._clock.now())))


def _at_version(policy_id: str, version: int) -> Condition:
    return Condition("id = :id AND version = :version", {"id": policy_id, "version": version})


def _stored(item: Item, number: str) -> guards.StoredPolicy:
    return guards.StoredPolicy(item[number], item["nonce"]) if item else guards.NOT_THERE


def _targets_are_busy() -> Throttled:
    return Throttled("the targets of the policies are being written by another; nothing was done")


def _ledger_is_busy(policy_id: str) -> Throttled:
    return Throttled(f"the ledger of policy {policy_id} is being written by another; nothing was done")
