"""Policies that objects of the cluster declare: who wins where two want one target, and what each is told.

Pure: the same objects, policies and states give the same answer for every runner, in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ebbtide.core.scale_to_zero.activity import not_watched
from ebbtide.core.scale_to_zero.policy_checks import stamped
from ebbtide.core.scale_to_zero.savings import local_date, report
from ebbtide.model.declared import Declaration, Declarer, Readiness, Report, SavedLately
from ebbtide.model.gate import ServiceRef
from ebbtide.model.idle import NO_WHY, IdleState, Phase, PolicyCause, PolicyWhy
from ebbtide.model.ledger import LedgerDay
from ebbtide.model.policy import Policy
from ebbtide.model.workload import WorkloadRef

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
    """The first and the last of the days whose savings an object is told."""
    last = local_date(zone, now)
    first = datetime.fromisoformat(last).replace(tzinfo=UTC) - timedelta(days=SAVED_DAYS - 1)
    return first.date().isoformat(), last


def saved_lately(policy: Policy, rows: Sequence[LedgerDay], now: int) -> SavedLately:
    first, last = first_day(policy.zone, now)
    total = report(policy.id, first, last, rows).total
    # Money of two currencies is never added up: euros are told, else the first by name.
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
    """What the object of a policy that is applied is told."""
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
