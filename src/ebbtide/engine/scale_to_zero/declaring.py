"""Policies from Kubernetes objects: written to the store once per round, and the status of the objects.

The store decides: an object is compared with the policy that has the object's name as its origin. A runner
that dies anywhere leaves nothing that the next round does not find. If an object is gone, its policy ends
in three durable steps:

    1. the policy is disabled, in one write with its state: a runner that was about to put the target to sleep
       is refused
    2. a sleeping target is woken
    3. once it is awake, the policy is deleted

If nothing changed, nothing is written, neither to the store nor to an object. If the write of a status is
lost, or time was up, the next round sees that the status is outdated. So reporting needs no state of its
own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ebbtide.core.scale_to_zero import policy_checks
from ebbtide.core.scale_to_zero.policy_checks import PolicyProblem, check_policy
from ebbtide.core.words import count_of
from ebbtide.engine.leased import Leased
from ebbtide.engine.scale_to_zero.context import PolicyContext
from ebbtide.engine.scale_to_zero.policies import PlannedChange, Policies, PolicyRefused
from ebbtide.engine.scale_to_zero.waking import Waking
from ebbtide.errors import EbbtideError, NameTaken, TargetTaken
from ebbtide.model.idle import IdleState, Phase, WakeReason
from ebbtide.model.policy import Declaration, Policy, Readiness, Report, declared_by, declaring_kind
from ebbtide.ports import Declarations

AT_ONCE = 100
"""Objects whose status is updated together. The lease is renewed in between."""


@dataclass(slots=True)
class SeenDeclarations:
    """What one round knows of the objects and their policies."""

    declarations: Sequence[Declaration] = ()
    applied: dict[str, Policy] = field(default_factory=dict)
    """By origin."""
    refused: dict[str, tuple[Readiness, str]] = field(default_factory=dict)
    """By origin: why not."""


@dataclass(frozen=True, slots=True)
class _News:
    """What an object is to be told."""

    declaration: Declaration
    report: Report
    asks_ledger_of: Policy | None
    """The policy whose ledger may say something new."""


class Reporting:
    def __init__(self, context: PolicyContext) -> None:
        self._context = context
        self._store = context.ports.policies
        self._threads = max(1, context.ports.threads)

    def tell(self, seen: SeenDeclarations, leased: Leased) -> list[str]:
        """What went wrong, in sentences."""
        port = self._context.ports.declarations
        if port is None or not seen.declarations:
            return []
        states = {state.policy_id: state for state in self._store.list_states()}
        news = list(self._news(seen, states))
        if not news:
            return []

        def one(item: _News) -> str | None:
            # A slow API server must not hold the round past its lease: another runner would begin one.
            return self._tell(port, item) if leased.has_time() else None

        said: list[str | None] = []
        with ThreadPoolExecutor(self._threads) as pool:
            for first in range(0, len(news), AT_ONCE):
                if has_time(leased):
                    said.extend(pool.map(one, news[first : first + AT_ONCE]))
        left = len(news) - sum(1 for says in said if says is not None)
        objects = count_of(left, "object")
        late = f"there was no time to update the status of {objects}; the next round continues"
        return [*filter(None, said), *([late] if left else [])]

    def _news(self, seen: SeenDeclarations, states: Mapping[str, IdleState]) -> Iterator[_News]:
        """Without a question to the ledger: thousands of objects have nothing new most of the time."""
        now = self._context.now
        for one in seen.declarations:
            policy = seen.applied.get(one.ref.origin)
            state = states.get(policy.id) if policy is not None else None
            report, asks = None, None
            if policy is not None and state is not None:
                saved = one.told.saved if one.told is not None else None
                report = policy_checks.report_of(one, policy, state, saved, now)
                asks = policy if policy_checks.is_due(one.told, policy, state, now) else None
            if (refused := seen.refused.get(one.ref.origin)) is not None:
                report = policy_checks.not_applied(report, one, *refused)
            if report is not None and (asks is not None or report != one.told):
                yield _News(one, report, asks)

    def _tell(self, port: Declarations, news: _News) -> str:
        one, report, policy = news.declaration, news.report, news.asks_ledger_of
        try:
            if policy is not None:
                now = self._context.now
                first, last = policy_checks.first_day(policy.zone, now)
                days = self._store.list_days(policy.id, first, last)
                report = replace(report, saved=policy_checks.saved_lately(policy, days, now))
            if report != one.told:
                port.tell(one, report)
        except EbbtideError as error:
            return f"{one.ref}: its status could not be updated: {error}"
        return ""


def has_time(leased: Leased) -> bool:
    """Thousands of new objects may take longer than a lease lasts."""
    if leased.half_over():
        with suppress(EbbtideError):
            leased.renew()
    return leased.has_time()


ASLEEP = (Phase.FALLING, Phase.ZERO)

_Wanted = tuple[Declaration, PlannedChange]


class Declaring:
    def __init__(self, context: PolicyContext, waking: Waking) -> None:
        ports = context.ports
        self._waking = waking
        self._declarations = ports.declarations
        self._store = ports.policies
        self._book = Policies(ports.policies, ports.clock, ports.new_id)
        self._reporting = Reporting(context)
        self._seen = SeenDeclarations()

    def apply(self, leased: Leased) -> list[str]:
        """Bring the store to what the objects say; what was done, in sentences. To be called under the lease
        `policies`. Where the objects cannot all be read, everything stays as it is."""
        self._seen = SeenDeclarations()
        if self._declarations is None:
            return []
        try:
            found = policy_checks.in_order(self._declarations.read())
        except EbbtideError as error:
            return [f"policies of Kubernetes objects were left as they are: {error}"]
        seen = self._seen = SeenDeclarations(found)
        # Crash table: target-changes. States before policies, as in a round.
        states = {state.policy_id: state for state in self._store.list_states()}
        stored = {policy.name: policy for policy in self._book.all()}
        said = [*self._end_orphans(found, stored, states, leased)]
        seen.applied |= {policy.origin: policy for policy in stored.values() if declared_by(policy)}
        return [*said, *self._bring_in(found, stored, leased)]

    def _bring_in(
        self, found: Sequence[Declaration], stored: dict[str, Policy], leased: Leased
    ) -> Iterator[str]:
        claims = policy_checks.Claims(stored.values())
        wanted: list[_Wanted] = []
        for one in found:
            change = self._change(one, stored, claims)
            if change is None:
                continue
            wanted.append((one, change))
            if change.moves or len(wanted) >= AT_ONCE:
                yield from self._write(wanted, leased)
                wanted = []
            # What sleeps cannot be moved: others get what it asks for until it is written.
            if not change.moves or self._is_written(one, change):
                stored[change.policy.name] = change.policy
                claims.put(change.policy)
        yield from self._write(wanted, leased)

    def _change(
        self, one: Declaration, stored: Mapping[str, Policy], claims: policy_checks.Claims
    ) -> PlannedChange | None:
        """What the object asks for, if anything."""
        origin = one.ref.origin
        known = self._seen.applied.get(origin)
        if one.policy is None:
            self._seen.refused[origin] = (Readiness.INVALID, one.problem)
            return None
        wanted = policy_checks.merged(one.policy, known, origin)
        if wanted == known:
            return None
        if problem := _problem_with(wanted, stored.get(wanted.name), claims):
            self._seen.refused[origin] = (
                Readiness.CONFLICT if problem.taken else Readiness.INVALID,
                problem.says,
            )
            return None
        return PlannedChange(wanted, known)

    def _is_written(self, one: Declaration, change: PlannedChange) -> bool:
        policy = self._seen.applied.get(one.ref.origin)
        return policy is not None and policy.target == change.policy.target

    def _write(self, some: Sequence[_Wanted], leased: Leased) -> Iterator[str]:
        if not some or not has_time(leased):
            return
        outcomes = self._book.carry_out_all([change for _, change in some])
        for (one, change), written in zip(some, outcomes, strict=True):
            if isinstance(written, EbbtideError):
                self._seen.refused[one.ref.origin] = _why_refused(written)
                continue
            self._seen.applied[one.ref.origin] = written
            yield f"policy {written.name}: {change.says}, as {one.ref} says"

    def _end_orphans(
        self,
        found: Sequence[Declaration],
        stored: dict[str, Policy],
        states: Mapping[str, IdleState],
        leased: Leased,
    ) -> Iterator[str]:
        there, asked = (
            {one.ref.origin for one in found},
            self._declarations.kinds if self._declarations else (),
        )
        # A kind that is not read, since its switch is off, has lost nothing: its policies stay active.
        lost = [
            each for each in stored.values() if declaring_kind(each) in asked and each.origin not in there
        ]
        for policy in lost:
            state = states.get(policy.id)
            if state is None or not has_time(leased):
                continue
            try:
                left, says = self._end(policy, state)
            except EbbtideError as error:
                yield f"policy {policy.name}: its object is gone, and it is not removed yet: {error}"
                continue
            if left is None:
                del stored[policy.name]
            else:
                stored[policy.name] = left
            if says:
                yield f"policy {policy.name}: {says}, since {declared_by(policy)} is gone"

    def _end(self, policy: Policy, state: IdleState) -> tuple[Policy | None, str]:
        """One step towards the end of the policy: what is left of it, and what was done."""
        if policy.enabled:
            # Crash table: declaration-gone. A runner that saw the target awake and idle must not put it to
            # sleep once nobody is left to wake it: this write raises the rev that its own write needs.
            policy = self._book.switch_off(policy, state)
        if state.phase in ASLEEP:
            self._waking.wake(policy.id, WakeReason.MANUAL)
            return policy, "woken"
        if state.phase is Phase.WAKING:
            return policy, ""
        self._book.delete(policy)
        return None, "deleted"

    def report(self, leased: Leased) -> list[str]:
        """Tell each object how its policy is doing, where it does not say so already."""
        return self._reporting.tell(self._seen, leased)


def _problem_with(wanted: Policy, named: Policy | None, claims: policy_checks.Claims) -> PolicyProblem | None:
    if named is not None and named.id != wanted.id:
        says = f"policy {named.name} has this name already and was not made by this object; delete it first"
        return PolicyProblem(("name",), says, taken=True)
    return next(check_policy(wanted, claims.rivals(wanted), ()), None)


def _why_refused(error: EbbtideError) -> tuple[Readiness, str]:
    if isinstance(error, PolicyRefused):
        return Readiness.TARGET_ASLEEP, "; ".join(problem.says for problem in error.problems)
    if isinstance(error, NameTaken | TargetTaken):
        return Readiness.CONFLICT, str(error)
    return Readiness.FAILED, str(error)
