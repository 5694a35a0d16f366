"""Whether to pay for fewer or cheaper nodes, and how: the phases of the policy, in its order.

    pre-flight    enabled, cooled down, nothing in progress, nothing being deployed, two nodes at least
    analysis      age, idleness, pods and price of each worker, and what may not be touched
    packing       drafts up to the fill limit, from no move at all to every pod moved
    plan          the draft that is worth most among those that pay: savings, pay-back, moves, launches
    validation    what moves fits by the scheduler's rules, and enough stays free

Every refusal names both numbers. Nothing is decided by the time that planning takes: the same
snapshot, record, settings and time give the same report, unless real time is handed in to `explore`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ebbtide.core.consolidation.choose import Choice, first_reason
from ebbtide.core.consolidation.game_servers import is_starting
from ebbtide.core.consolidation.look import Look, look
from ebbtide.core.consolidation.pace import cooled_down, settled
from ebbtide.core.nodes import gates
from ebbtide.core.nodes.capacity import standing
from ebbtide.core.nodes.question import Question, in_progress
from ebbtide.core.packing.types import Budget, CountingClock
from ebbtide.core.words import count_of, notices_open
from ebbtide.model.check import Check, Values
from ebbtide.model.consolidation import ConsolidationReport
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

LEAST_NODES = 2
_SEARCHING = 0.8
"""Share of the time for looking and drafting; the rest is for asking again and writing out."""


def evaluate(
    snapshot: Snapshot,
    record: Record,
    settings: Settings,
    now: int,
    operation_id: str,
    players: Mapping[str, int] | None = None,
) -> ConsolidationReport:
    """All that was asked and found; a plan is looked for only where every check before it passes."""
    return evaluated(Question(snapshot, record, settings, now, operation_id), players or {})


def evaluated(question: Question, players: Mapping[str, int]) -> ConsolidationReport:
    settings = question.settings
    checks = tuple(_preflight(question))
    if not settings.consolidation.enabled:
        return ConsolidationReport(checks)
    if question.brief and any(not check.passed for check in checks[:-1]):
        return ConsolidationReport(checks)
    found = look(question.snapshot, question.record, settings, question.now, players)
    if any(not check.passed for check in checks):
        return ConsolidationReport(_with_reason(checks, found), found.nodes, found.refusals)
    rules = settings.consolidation
    budget = Budget(CountingClock(), rules.plan_seconds, packer=settings.packer)
    return Choice(question, found).report(checks, budget)


def explore(
    question: Question, players: Mapping[str, int], clock: Callable[[], float]
) -> ConsolidationReport:
    """The same, and the best plan as `candidate` although a check before it fails; `clock` is real time,
    of which planning may use as much as the settings allow."""
    start = clock()
    checks = tuple(_preflight(question))
    found = look(question.snapshot, question.record, question.settings, question.now, players)
    rules = question.settings.consolidation
    budget = Budget(clock, start + rules.plan_seconds * _SEARCHING, packer=question.settings.packer)
    return Choice(question, found).report(checks, budget)


def _preflight(question: Question) -> Iterator[Check]:
    """All of them, so a table can show them; the first that fails is the reason."""
    snapshot, record, settings = question.snapshot, question.record, question.settings
    rules, now = settings.consolidation, question.now
    yield Check("enabled", rules.enabled, f"consolidation is {'on' if rules.enabled else 'off'}")
    yield gates.complete(snapshot)
    yield gates.plausible(snapshot, record, settings)
    yield gates.healthy(snapshot, record, settings)
    yield gates.not_paused(record)
    yield cooled_down(record, rules, now)
    yield _stable(record)
    yield _nothing_deployed(snapshot, settings, now)
    yield gates.load_not_high(snapshot, settings)
    if settings.settled_seconds:
        yield settled(record, settings)
    workers = len(standing(snapshot, record))
    says = f"{count_of(workers, 'ready worker')}, at least {LEAST_NODES} are asked for"
    yield Check("enough nodes", workers >= LEAST_NODES, says, Values(workers, LEAST_NODES))


def _with_reason(checks: tuple[Check, ...], found: Look) -> tuple[Check, ...]:
    """One node that is too young, or was emptied just now, stays for that reason, as in scenarios 1 and 2 of
    the policy: that there is only one is the lesser of the two."""
    last = checks[-1]
    if any(not check.passed for check in checks[:-1]):
        return checks
    return (*checks[:-1], replace(last, says=first_reason(found.nodes, last.says)))


def _stable(record: Record) -> Check:
    if record.operation is not None:
        return Check("stable", False, in_progress(record.operation), Values(about=record.operation.id))
    if record.spots:
        spots = len(record.spots)
        return Check("stable", False, notices_open(spots), Values(spots, 0))
    return Check("stable", True, "no operation is in progress")


def _nothing_deployed(snapshot: Snapshot, settings: Settings, now: int) -> Check:
    waiting = [pod for pod in snapshot.cluster.waiting_pods if not pod.tied_to_node]
    within = settings.consolidation.move_timeout_seconds
    starting = [pod for pod in snapshot.cluster.pods if not pod.finished and is_starting(pod, now, within)]
    pending = f"{count_of(len(waiting), 'pod')} {'is' if len(waiting) == 1 else 'are'} pending"
    coming = f"{count_of(len(starting), 'pod')} {'is' if len(starting) == 1 else 'are'} starting"
    busy = waiting + starting
    said = [pending] * bool(waiting) + [coming] * bool(starting)
    says = " and ".join(said) + f" ({busy[0].full_name} first)" if said else ""
    says = says or "no pod is pending or starting"
    values = Values(len(busy), 0, busy[0].full_name if busy else "")
    return Check("queue empty", not waiting and not starting, says, values)
