"""Writing policies: create, replace and delete, each with its entry in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ebbtide.errors import NotFound
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.policy import Policy
from ebbtide.ports import Clock, PolicyStore

PAGE = 500


class Policies:
    def __init__(self, store: PolicyStore, clock: Clock, new_id: Callable[[], str]) -> None:
        self.store = store
        self._clock = clock
        self._new_id = new_id

    def create(self, policy: Policy) -> Policy:
        """`NameTaken` where another has its name."""
        now = int(self._clock.now())
        fresh = replace(policy, version=0, created_at=now, updated_at=now)
        return self.store.put_policy(fresh, [self._entry(fresh, "created")])

    def replace(self, policy: Policy) -> Policy:
        """The one of this id and version: `Conflict` where that is no longer its version."""
        changed = replace(policy, updated_at=int(self._clock.now()))
        return self.store.put_policy(changed, [self._entry(changed, "changed")])

    def apply(self, policy: Policy) -> tuple[Policy, str]:
        """Create the one of this name, or bring it to this; what was done, in a word."""
        known = self.store.find_policy_named(policy.name)
        if known is None:
            return self.create(policy), "created"
        wanted = replace(
            policy,
            id=known.id,
            version=known.version,
            created_at=known.created_at,
            updated_at=known.updated_at,
        )
        if wanted == known:
            return known, "unchanged"
        return self.replace(wanted), "changed"

    def delete(self, policy: Policy) -> None:
        self.store.delete_policy(policy.id, policy.version, [self._entry(policy, "deleted")])

    def find(self, name_or_id: str) -> Policy:
        found = self.store.find_policy_named(name_or_id) or self.store.find_policy(name_or_id)
        if found is None:
            raise NotFound(
                f"there is no policy {name_or_id!r}; nothing was changed. `ebbtide policy list` shows all"
            )
        return found

    def all(self) -> Iterator[Policy]:
        after = ""
        while page := self.store.list_policies(after, PAGE):
            yield from page
            after = page[-1].name

    def _entry(self, policy: Policy, done: str) -> LogEntry:
        says = f"policy {policy.name} {done}: {policy.target}"
        return LogEntry(self._new_id(), int(self._clock.now()), LogKind.POLICY, says, policy.id)
