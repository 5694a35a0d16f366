"""Writing policies: create, replace and delete, each with its entry in the log, and a policy that
conflicts with another is refused. Two writes at the same moment are both checked against the state before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ebbtide.core.scale_to_zero.policy_checks import PolicyProblem, check_policy, stamped, stranded
from ebbtide.core.scale_to_zero.rules import written_at
from ebbtide.errors import Conflict, EbbtideError, NotFound, Usage
from ebbtide.model.events import PolicyChange, PolicyWritten
from ebbtide.model.idle import IdleState
from ebbtide.model.log import LogEntry
from ebbtide.model.policy import Policy, Schedule, declared_by
from ebbtide.narrate import entry_of
from ebbtide.ports import Clock, PolicyStore

PAGE = 500
MOST_TRIES = 20
"""The idle loop writes a state now and then; a change of target that met such a write is made again."""


class PolicyRefused(Usage):
    """A policy that does not fit next to the pools and the other policies; nothing was changed."""

    def __init__(self, name: str, problems: Sequence[PolicyProblem]) -> None:
        told = "; ".join(f"{problem.field}: {problem.says}" for problem in problems)
        super().__init__(f"policy {name}: {told}; nothing was changed")
        self.problems = tuple(problems)

    @property
    def taken(self) -> bool:
        """Whether it conflicts with something else (409), or is invalid itself (422)."""
        return any(each.taken for each in self.problems)


@dataclass(frozen=True, slots=True)
class PlannedChange:
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
    def moves(self) -> bool:
        """Whether it changes the target, which depends on the state, too."""
        return self.known is not None and self.known.target != self.policy.target

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
        """`NameTaken` where another has its name, `PolicyRefused` where it conflicts with the others."""
        if self.store.find_policy_named(policy.name) is None:  # else the store says whose it is
            self._refuse(policy)
        return self._create(policy)

    def replace(self, policy: Policy) -> Policy:
        """The one of this id and version: `Conflict` where that is no longer its version. `PolicyRefused` as
        above."""
        self._refuse(policy)
        return self._replace(policy)

    def plan(self, wanted: Sequence[Policy], origin: str | None = None) -> list[PlannedChange]:
        """What it would take that there are these, by their names, and what speaks against each; nothing is
        written. Without `origin` that of a known one stays."""
        stored = {policy.name: policy for policy in self.all()}
        changes = [_change(policy, stored.get(policy.name), origin) for policy in wanted]
        then = {**stored, **{change.policy.name: change.policy for change in changes}}
        return [
            change
            if change.known == change.policy
            else replace(
                change, problems=(*_declared(change.known), *self._problems(change.policy, then.values()))
            )
            for change in changes
        ]

    def carry_out(self, change: PlannedChange) -> Policy:
        if change.known is None:
            return self._create(change.policy)
        return change.known if change.policy == change.known else self._replace(change.policy)

    def carry_out_all(self, changes: Sequence[PlannedChange]) -> list[Policy | EbbtideError]:
        """In their order, as `carry_out` does one, but neighbours that need no more than one write each are
        written together. For each: the policy as written, or why it was not."""
        done: list[Policy | EbbtideError] = []
        for moves, neighbours in groupby(changes, lambda change: change.moves):
            some = list(neighbours)
            done += map(self._tried, some) if moves else self._put_all(some)
        return done

    def delete(self, policy: Policy) -> None:
        self.store.delete_policy(policy.id, policy.version, [self._entry(policy, PolicyChange.DELETED)])

    def switch_off(self, policy: Policy, state: IdleState) -> Policy:
        """Together with its state: `Conflict` where either was written since. From then on nobody puts its
        target to sleep, not even a runner that has read both already."""
        now = int(self._clock.now())
        off = replace(policy, enabled=False, updated_at=now)
        return self.store.put_policy(off, [self._entry(off, PolicyChange.CHANGED)], state)

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
        if problems := (*_declared(policy), *self._problems(policy, self.all())):
            raise PolicyRefused(policy.name, problems)

    def _problems(
        self, policy: Policy, stored: Collection[Policy] | Iterator[Policy]
    ) -> tuple[PolicyProblem, ...]:
        others = (other for other in stored if other.id != policy.id)
        return (*check_policy(policy, others, self._pools), *self._stranded(policy))

    def _stranded(self, policy: Policy) -> Iterator[PolicyProblem]:
        """What a change of target would leave at zero with nobody to wake it."""
        stored = self.store.find_policy(policy.id) if policy.version else None
        if stored is not None and stored.target != policy.target:
            yield from stranded(policy, self._state(policy.id))

    def _state(self, policy_id: str) -> IdleState:
        return self.store.find_state(policy_id) or IdleState(policy_id)

    def _put_all(self, changes: Sequence[PlannedChange]) -> Sequence[Policy | EbbtideError]:
        made = (
            self._fresh(each.policy) if each.known is None else self._changed(each.policy, each.known)
            for each in changes
        )
        return self.store.put_policies([(policy, [entry]) for policy, entry in made])

    def _tried(self, change: PlannedChange) -> Policy | EbbtideError:
        try:
            return self.carry_out(change)
        except EbbtideError as error:
            return error

    def _create(self, policy: Policy) -> Policy:
        fresh, entry = self._fresh(policy)
        return self.store.put_policy(fresh, [entry])

    def _replace(self, policy: Policy) -> Policy:
        known = self.store.find_policy(policy.id) or policy
        changed, entry = self._changed(policy, known)
        if known.target == policy.target:
            return self.store.put_policy(changed, [entry])
        return self._retarget(changed, entry)

    def _fresh(self, policy: Policy) -> tuple[Policy, LogEntry]:
        now = int(self._clock.now())
        schedules = stamped(policy.schedules, (), now)
        fresh = replace(policy, version=0, created_at=now, updated_at=now, schedules=schedules)
        return fresh, self._entry(fresh, PolicyChange.CREATED)

    def _changed(self, policy: Policy, known: Policy) -> tuple[Policy, LogEntry]:
        now = int(self._clock.now())
        # What is not enabled counts nothing: it must not fire for the time in which it was switched off.
        counted = _written(known) if known.enabled else ()
        changed = replace(policy, updated_at=now, schedules=stamped(policy.schedules, counted, now))
        return changed, self._entry(changed, PolicyChange.CHANGED)

    def _retarget(self, policy: Policy, entry: LogEntry) -> Policy:
        """Written together with the state, on the condition that nothing fell asleep since it was read."""
        for _ in range(MOST_TRIES):
            state = self._state(policy.id)
            if problems := tuple(stranded(policy, state)):
                raise PolicyRefused(policy.name, problems)
            idle_since = None if state.idle_since is None else policy.updated_at
            fresh = replace(state, idle_since=idle_since, remembered=(), timers=())
            try:
                return self.store.put_policy(policy, [entry], fresh)
            except Conflict:
                stored = self.store.find_policy(policy.id)
                if stored is None or stored.version != policy.version:
                    raise
        raise Conflict(f"the state of policy {policy.name} keeps being written by others: try again")

    def _entry(self, policy: Policy, change: PolicyChange) -> LogEntry:
        fact = PolicyWritten(policy.name, change, str(policy.target))
        return entry_of(self._new_id(), int(self._clock.now()), fact, policy.id)


def _declared(policy: Policy | None) -> Iterator[PolicyProblem]:
    """An object of the cluster would bring it back to what it says itself."""
    if policy is not None and (owner := declared_by(policy)):
        yield PolicyProblem(("name",), f"{owner} declares this policy; change that object", taken=True)


def _written(policy: Policy) -> tuple[Schedule, ...]:
    """Its schedules, each with the time from which it counts."""
    return tuple(replace(each, written_at=written_at(policy, each)) for each in policy.schedules)


def _change(policy: Policy, known: Policy | None, origin: str | None) -> PlannedChange:
    if known is None:
        return PlannedChange(replace(policy, origin=origin or ""), None)
    kept = replace(
        policy,
        id=known.id,
        version=known.version,
        created_at=known.created_at,
        updated_at=known.updated_at,
        origin=known.origin if origin is None else origin,
        schedules=stamped(policy.schedules, known.schedules, 0),
    )
    return PlannedChange(kept, known)
