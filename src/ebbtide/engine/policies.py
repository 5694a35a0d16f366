"""Writing policies: create, replace and delete, each with its entry in the log, and none that does not fit
beside the others. Who writes at the very same moment as another is checked against what was there before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from ebbtide.core.policy_checks import PolicyProblem, check_policy
from ebbtide.errors import NotFound, Usage
from ebbtide.model.events import PolicyChange, PolicyWritten
from ebbtide.model.log import LogEntry
from ebbtide.model.policy import Policy
from ebbtide.narrate import entry_of
from ebbtide.ports import Clock, PolicyStore

PAGE = 500


class PolicyRefused(Usage):
    """A policy that does not fit beside the pools and the other policies; nothing was changed."""

    def __init__(self, name: str, problems: Sequence[PolicyProblem]) -> None:
        told = "; ".join(f"{problem.field}: {problem.says}" for problem in problems)
        super().__init__(f"policy {name}: {told}; nothing was changed")
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Change:
    """What applying a policy would do."""

    policy: Policy
    known: Policy | None
    problems: tuple[PolicyProblem, ...] = ()

    @property
    def kind(self) -> PolicyChange | None:
        """None where nothing would change."""
        if self.known is None:
            return PolicyChange.CREATED
        same = replace(self.policy, origin=self.known.origin) == self.known
        return None if same else PolicyChange.CHANGED

    @property
    def says(self) -> str:
        return str(self.kind or "unchanged")


class Policies:
    def __init__(
        self, store: PolicyStore, clock: Clock, new_id: Callable[[], str], pools: Collection[str] = ()
    ) -> None:
        """`pools` are those that a policy may name; any where there is none."""
        self.store = store
        self._clock = clock
        self._new_id = new_id
        self._pools = tuple(pools)

    def create(self, policy: Policy) -> Policy:
        """`NameTaken` where another has its name, `PolicyRefused` where it does not fit beside the others."""
        if self.store.find_policy_named(policy.name) is None:  # else the store says whose it is
            self._refuse(policy)
        return self._create(policy)

    def replace(self, policy: Policy) -> Policy:
        """The one of this id and version: `Conflict` where that is no longer its version. `PolicyRefused` as
        above."""
        self._refuse(policy)
        return self._replace(policy)

    def plan(self, wanted: Sequence[Policy], origin: str | None = None) -> list[Change]:
        """What it would take that there are these, by their names, and what speaks against each; nothing is
        written. Without `origin` that of a known one stays."""
        stored = {policy.name: policy for policy in self.all()}
        changes = [_change(policy, stored.get(policy.name), origin) for policy in wanted]
        then = {**stored, **{change.policy.name: change.policy for change in changes}}
        return [
            change
            if change.known == change.policy
            else replace(change, problems=self._problems(change.policy, then.values()))
            for change in changes
        ]

    def carry_out(self, change: Change) -> Policy:
        if change.known is None:
            return self._create(change.policy)
        return change.known if change.policy == change.known else self._replace(change.policy)

    def delete(self, policy: Policy) -> None:
        self.store.delete_policy(policy.id, policy.version, [self._entry(policy, PolicyChange.DELETED)])

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

    def _refuse(self, policy: Policy) -> None:
        if problems := self._problems(policy, self.all()):
            raise PolicyRefused(policy.name, problems)

    def _problems(
        self, policy: Policy, beside: Collection[Policy] | Iterator[Policy]
    ) -> tuple[PolicyProblem, ...]:
        others = (other for other in beside if other.id != policy.id)
        return tuple(check_policy(policy, others, self._pools))

    def _create(self, policy: Policy) -> Policy:
        now = int(self._clock.now())
        fresh = replace(policy, version=0, created_at=now, updated_at=now)
        return self.store.put_policy(fresh, [self._entry(fresh, PolicyChange.CREATED)])

    def _replace(self, policy: Policy) -> Policy:
        changed = replace(policy, updated_at=int(self._clock.now()))
        return self.store.put_policy(changed, [self._entry(changed, PolicyChange.CHANGED)])

    def _entry(self, policy: Policy, change: PolicyChange) -> LogEntry:
        fact = PolicyWritten(policy.name, change, str(policy.target))
        return entry_of(self._new_id(), int(self._clock.now()), fact, policy.id)


def _change(policy: Policy, known: Policy | None, origin: str | None) -> Change:
    if known is None:
        return Change(replace(policy, origin=origin or ""), None)
    kept = replace(
        policy,
        id=known.id,
        version=known.version,
        created_at=known.created_at,
        updated_at=known.updated_at,
        origin=known.origin if origin is None else origin,
    )
    return Change(kept, known)
