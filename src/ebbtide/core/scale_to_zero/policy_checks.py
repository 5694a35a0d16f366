"""Problems of a policy that only show together with the pools and the other policies; and, of policies that
objects of the cluster declare, which one wins if two want the same target, and what the status of each says.

The checks are the same for a file, the API and the command line; the place of each problem is the path of its
field. For declared policies, the same objects, policies and states give the same answer for every runner, in
any order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from ebbtide.core.scale_to_zero.activity import not_watched
from ebbtide.core.scale_to_zero.savings import local_date, report
from ebbtide.model.idle import NO_WHY, IdleState, LedgerDay, Phase, PolicyCause, PolicyWhy
from ebbtide.model.pod import WorkloadRef
from ebbtide.model.policy import (
    Declaration,
    Declarer,
    Policy,
    Readiness,
    Report,
    SavedLately,
    Schedule,
    ServiceRef,
)


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    path: tuple[str | int, ...]
    says: str
    taken: bool = False
    """Whether it conflicts with another policy, so changing that one would help as well."""

    @property
    def field(self) -> str:
        """`schedules[0].replicas`."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return "".join(parts).removeprefix(".")


def check_policy(policy: Policy, others: Iterable[Policy], pools: Collection[str]) -> Iterator[PolicyProblem]:
    """`others` are all but this one; where no pool is configured, any may be meant."""
    pool = policy.target.pool
    if pool and pools and pool not in pools:
        yield PolicyProblem(
            ("target", "pool"), f'"{pool}" is not a configured pool; allowed: {", ".join(pools)}'
        )
    for place, schedule in enumerate(policy.schedules):
        if len(policy.target.workloads) != 1 and schedule.replicas and not schedule.wake:
            # One number for a whole group once raised a single database to two.
            says = "a number is for one workload alone; write wake: true, which restores what each had, or 0"
            yield PolicyProblem(("schedules", place, "replicas"), says)
    if policy.gate is not None and pool:
        yield PolicyProblem(("gate",), "a gate is for workloads; name those that its Services select")
    if policy.enabled:
        yield from _targets_taken(policy, [other for other in others if other.enabled])


def _targets_taken(policy: Policy, others: Collection[Policy]) -> Iterator[PolicyProblem]:
    """Two that are active on one target would undo each other's sleep and wake."""
    target = policy.target
    for other in others:
        if target.pool and other.target.pool == target.pool:
            yield _taken(("target", "pool"), f"pool {target.pool}", other)
    holders = {ref: other for other in others for ref in other.target.workloads}
    for place, ref in enumerate(target.workloads):
        if ref in holders:
            yield _taken(("target", "workloads", place), str(ref), holders[ref])
    gates = {ref: other for other in others if other.gate is not None for ref in other.gate.services}
    for place, service in enumerate(policy.gate.services if policy.gate is not None else ()):
        if service in gates:
            # One gate port stands for one policy: the other would never be woken.
            yield _taken(("gate", "services", place), str(service), gates[service], "in the gate")


def _taken(path: tuple[str | int, ...], what: str, other: Policy, role: str = "the target") -> PolicyProblem:
    says = f"{what} is {role} of policy {other.name} already; add it there, or disable or delete that policy"
    return PolicyProblem(path, says, taken=True)


def stranded(policy: Policy, state: IdleState) -> Iterator[PolicyProblem]:
    """What a policy put to sleep and would no longer wake, were this its target from now on."""
    says, kept = "", policy.target.workloads
    if state.phase not in (Phase.ACTIVE, Phase.IDLE):
        says = f"its target is {_SPOKEN[state.phase]}"
    elif left := [one.ref for one in state.remembered if one.replicas and one.ref not in kept]:
        says = f"{left[0]} was put to sleep by it"
    if says:
        says = f"{says}; wake it first and wait until it is ready, then change the target"
        yield PolicyProblem(("target",), says, taken=True)


_SPOKEN = {Phase.FALLING: "going to sleep", Phase.ZERO: "asleep", Phase.WAKING: "waking"}


def stamped(schedules: Sequence[Schedule], known: Sequence[Schedule], now: int) -> tuple[Schedule, ...]:
    """The schedules with the time from which each counts: that of the same schedule in the policy as it was
    before, else now. So what is added or changed never fires for the past, and a policy that is written again
    unchanged, as at every start, forgets nothing."""
    before: dict[Schedule, list[int]] = {}
    for each in known:
        before.setdefault(replace(each, written_at=0), []).append(each.written_at)
    found = []
    for each in schedules:
        stamps = before.get(replace(each, written_at=0)) or [now]
        found.append(replace(each, written_at=stamps.pop(0)))
    return tuple(found)


SAVED_DAYS = 30
EUROS = "EUR"


def in_order(declarations: Iterable[Declaration]) -> list[Declaration]:
    """Who comes first gets a target that several want: objects before annotations, then by age and name."""
    return sorted(
        declarations,
        key=lambda one: (
            one.ref.kind is not Declarer.SLEEP_POLICY,
            one.created_at,
            one.ref.namespace,
            one.ref.name,
            one.ref.kind,
        ),
    )


def merged(wanted: Policy, known: Policy | None, origin: str) -> Policy:
    """The policy as it should stand in the store; equal to the known one where nothing changes."""
    if known is None:
        return replace(wanted, origin=origin)
    return replace(
        wanted,
        id=known.id,
        version=known.version,
        created_at=known.created_at,
        updated_at=known.updated_at,
        origin=origin,
        schedules=stamped(wanted.schedules, known.schedules, 0),
    )


class Claims:
    """Which policy holds which workload and Service. Asking is quick for thousands of policies."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        self._holders: dict[WorkloadRef | ServiceRef, Policy] = {}
        self._held: dict[str, tuple[WorkloadRef | ServiceRef, ...]] = {}
        for policy in policies:
            self.put(policy)

    def put(self, policy: Policy) -> None:
        for key in self._held.pop(policy.id, ()):
            del self._holders[key]
        if policy.enabled:
            free = tuple(key for key in _wants(policy) if key not in self._holders)
            self._held[policy.id] = free
            self._holders.update(dict.fromkeys(free, policy))

    def rivals(self, policy: Policy) -> list[Policy]:
        """The other active policies on any of its targets."""
        found = {
            holder.id: holder
            for key in _wants(policy)
            if (holder := self._holders.get(key)) is not None and holder.id != policy.id
        }
        return list(found.values())


def _wants(policy: Policy) -> tuple[WorkloadRef | ServiceRef, ...]:
    return (*policy.target.workloads, *(policy.gate.services if policy.gate is not None else ()))


def first_day(zone: str, now: int) -> tuple[str, str]:
    """The first and the last day of the savings in the status of an object."""
    last = local_date(zone, now)
    first = datetime.fromisoformat(last).replace(tzinfo=UTC) - timedelta(days=SAVED_DAYS - 1)
    return first.date().isoformat(), last


def saved_lately(policy: Policy, rows: Sequence[LedgerDay], now: int) -> SavedLately:
    first, last = first_day(policy.zone, now)
    total = report(policy.id, first, last, rows).total
    # Amounts in two currencies are never added up: euros are shown, else the first by name.
    shown = next((money for money in total.money if money.currency == EUROS), next(iter(total.money), None))
    if shown is None:
        return SavedLately(last, total.scaled_to_zero_seconds)
    return SavedLately(last, total.scaled_to_zero_seconds, f"{shown.net:.2f}", shown.currency)


def is_due(told: Report | None, policy: Policy, state: IdleState, now: int) -> bool:
    """Whether the ledger may say something new: a phase has ended, or a day."""
    if told is None or told.saved is None or told.phase != state.phase:
        return True
    return told.saved.until != local_date(policy.zone, now)


def report_of(
    declaration: Declaration, policy: Policy, state: IdleState, saved: SavedLately | None, now: int
) -> Report:
    """The status of an object whose policy is applied."""
    return Report(
        Readiness.APPLIED,
        f"policy {policy.name} is as this object says",
        declaration.generation,
        target=", ".join(each.name for each in policy.target.workloads),
        phase=state.phase,
        since=_since(state),
        why_awake=_why_awake(policy, state, now).says,
        saved=saved,
    )


def not_applied(report: Report | None, declaration: Declaration, ready: Readiness, says: str) -> Report:
    """`report` is that of its policy as it was before, which is still active; None where there is none."""
    return replace(report or Report(ready, says, declaration.generation), ready=ready, says=says)


def _since(state: IdleState) -> int:
    match state.phase:
        case Phase.ZERO:
            return state.scaled_to_zero_at or 0
        case Phase.IDLE:
            return state.idle_since or 0
        case Phase.FALLING:
            return state.checked_at
        case _:
            return state.last_wake_at or 0


def _why_awake(policy: Policy, state: IdleState, now: int) -> PolicyWhy:
    """Why it does not sleep, where that is not simply its use."""
    if state.phase in (Phase.ZERO, Phase.FALLING):
        return NO_WHY
    if state.paused:
        return PolicyWhy(PolicyCause.PAUSED, "the policy is paused")
    if state.keep_up_until > now:
        return PolicyWhy(PolicyCause.KEPT_UP, "it is kept up")
    if state.left_alone:
        return state.why_left_alone
    return not_watched(policy) if policy.scale_to_zero or not policy.enabled else NO_WHY
