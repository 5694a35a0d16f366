"""Whether to pay for fewer or cheaper nodes, and how: the phases of the policy, in its order, and how the
result is reported. `consolidate`, the last strategy of a decision, acts on it.

    pre-flight    enabled, cooled down, nothing in progress, nothing being deployed, two nodes at least
    analysis      age, idleness, pods and price of each worker, and what may not be touched
    packing       drafts up to the fill limit, from no move at all to every pod moved
    plan          the draft that is worth most among those that pay: savings, pay-back, moves, launches
    validation    what moves fits by the scheduler's rules, and enough stays free

Every refusal names both numbers. Nothing is decided by the time that planning takes: the same
snapshot, record, settings and time give the same report, unless real time is handed in to `explore`.

Nodes emptied by an earlier plan come first; while there are any, no other plan is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from ebbtide.core.consolidation.choose import Choice, first_reason
from ebbtide.core.consolidation.emptied_nodes import choose_leaving, note_leaving, stable
from ebbtide.core.consolidation.game_servers import any_may_start, is_starting
from ebbtide.core.consolidation.look import Look, look
from ebbtide.core.consolidation.pace import settled, wait_seconds, within_budgets
from ebbtide.core.nodes import gates
from ebbtide.core.nodes.capacity import standing
from ebbtide.core.nodes.question import Answer, Question, backed_off, in_progress, no_operation
from ebbtide.core.packing.types import Budget, CountingClock
from ebbtide.core.words import a_price, a_while, count_of, names_of, notices_open, two_prices
from ebbtide.model.check import Check, Refusal, Values
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationReport, ConsolidationSettings
from ebbtide.model.events import ConsolidationEvaluated
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.pod import Pod
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

EVENT = LogKind.CONSOLIDATION.value
HOURS_PER_MONTH = 730
SECONDS_PER_DAY = 86_400
CENT = Decimal("0.01")


def evaluation_fact(
    report: ConsolidationReport, rules: ConsolidationSettings | None = None
) -> ConsolidationEvaluated:
    """Exactly the fields of the policy's log entry."""
    plan = report.plan or ConsolidationPlan()
    removed = tuple(removal.node_name for removal in (*plan.empties, *plan.sources))
    kept = tuple(node.node_name for node in report.nodes if node.node_name not in removed)
    savings = plan.savings_per_hour
    return ConsolidationEvaluated(
        event=EVENT,
        nodes_before=len(report.nodes),
        nodes_after=len(kept) + len(plan.slots),
        nodes_removed=removed,
        nodes_kept=kept,
        cost_savings_per_hour=float(savings),
        cost_savings_per_month=float((savings * HOURS_PER_MONTH).quantize(CENT)),
        containers_migrated=len(plan.moves),
        reason=_reason(report, rules or ConsolidationSettings()),
    )


def _reason(report: ConsolidationReport, rules: ConsolidationSettings) -> str:
    failed = report.failed
    if failed is not None:
        return failed.says
    plan = report.plan or ConsolidationPlan()
    parts: list[str] = []
    if plan.empties:
        parts.append(f"{count_of(len(plan.empties), 'node')} idle >{rules.min_idle_seconds // 60}min")
    if plan.sources:
        emptied, moves = count_of(len(plan.sources), "node"), count_of(len(plan.moves), "move")
        parts.append(f"{emptied} emptied by {moves}")
    if plan.slots:
        parts.append(f"{count_of(len(plan.slots), 'cheaper node')} launched first")
    return ", ".join([*parts, "savings significant"]) if parts else "not evaluated"


@dataclass(frozen=True, slots=True)
class Tracked:
    """The four metrics of the policy over some time."""

    consolidations_per_day: float
    average_savings_per_hour: Decimal
    failed: Mapping[str, int]
    """How often, by reason."""
    provisioned: int
    decommissioned: int

    @property
    def churn(self) -> float:
        """Nodes launched for each node removed; both at once mean that nothing was gained."""
        return self.provisioned / self.decommissioned if self.decommissioned else float(self.provisioned)


def tracked(entries: Iterable[LogEntry], seconds: int, provisioned: int, decommissioned: int) -> Tracked:
    """From the entries of this many seconds; launches and removals are counted elsewhere."""
    told = [entry.data for entry in entries if entry.kind is LogKind.CONSOLIDATION]
    done = [data for data in told if data.get("nodes_removed")]
    savings = sum((Decimal(str(data.get("cost_savings_per_hour", 0))) for data in done), Decimal(0))
    failed = Counter(str(data.get("reason", "")) for data in told if not data.get("nodes_removed"))
    return Tracked(
        consolidations_per_day=len(done) * SECONDS_PER_DAY / max(seconds, 1),
        average_savings_per_hour=savings / len(done) if done else Decimal(0),
        failed=dict(failed),
        provisioned=provisioned,
        decommissioned=decommissioned,
    )


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
    """All that was asked and found; a plan is looked for only where every check before it passes. Players are
    those of the snapshot, as in a decision, unless others are handed in."""
    counted = snapshot.players_of if players is None else players
    return evaluated(Question(snapshot, record, settings, now, operation_id), counted)


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
    says = f"{count_of(workers, 'ready worker')}, at least {LEAST_NODES} required"
    yield Check("enough nodes", workers >= LEAST_NODES, says, Values(workers, LEAST_NODES))


def _with_reason(checks: tuple[Check, ...], found: Look) -> tuple[Check, ...]:
    """One node that is too young, or was emptied just now, stays for that reason, as in scenarios 1 and 2 of
    the policy: that there is only one is the lesser of the two."""
    last = checks[-1]
    if any(not check.passed for check in checks[:-1]):
        return checks
    return (*checks[:-1], replace(last, says=first_reason(found.nodes, last.says)))


def cooled_down(record: Record, rules: ConsolidationSettings, now: int) -> Check:
    last, wait = record.last_consolidation_at, wait_seconds(record, rules)
    if not last or now - last >= wait:
        over = f"the cooldown of {a_while(wait)} is over" if last else "none before"
        return Check("cooled down", True, over, Values(now - last if last else None, wait))
    cooldown = a_while(rules.cooldown_seconds)
    says = f"the last consolidation was {a_while(now - last)} ago, the cooldown is {cooldown}"
    if vain := record.consolidations_in_vain:
        says += f", {a_while(wait)} after {vain} without result (too few of their nodes were removed so far)"
    return Check("cooled down", False, says, Values(now - last, wait))


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
    starting: list[Pod] = []
    if any(load.of(any_may_start) for load in snapshot.cluster.loads.values()):
        pods = snapshot.cluster.pods
        starting = [pod for pod in pods if not pod.finished and is_starting(pod, now, within)]
    pending = f"{count_of(len(waiting), 'pod')} {'is' if len(waiting) == 1 else 'are'} pending"
    coming = f"{count_of(len(starting), 'pod')} {'is' if len(starting) == 1 else 'are'} starting"
    busy = waiting + starting
    said = [pending] * bool(waiting) + [coming] * bool(starting)
    says = " and ".join(said) + f" ({busy[0].full_name} first)" if said else ""
    says = says or "no pod is pending or starting"
    values = Values(len(busy), 0, busy[0].full_name if busy else "")
    return Check("queue empty", not waiting and not starting, says, values)


def consolidate(q: Question, answer: Answer) -> Iterator[Check]:
    enabled = q.settings.consolidation.enabled
    yield Check("consolidation on", enabled, f"consolidation is {'on' if enabled else 'off'}")
    yield no_operation(q)
    yield from _go_on(q, answer) if q.record.leaving else _begin(q, answer)


def _go_on(q: Question, answer: Answer) -> Iterator[Check]:
    """What was decided before, and waited for the idle time or for a budget."""
    yield from stable(q.snapshot, q.record, q.settings)
    yield backed_off(q.record.removal_failures, q.record.removal_backoff_until, q.now)
    removals, answer.refusals = choose_leaving(q.snapshot, q.record, q.settings, q.now)
    yield _some_can_go("a node that leaves can go", len(removals), answer.refusals)
    answer.removals = removals
    names = names_of([removal.node_name for removal in removals])
    answer.reason = f"remove {names}: emptied by consolidation"


def _begin(q: Question, answer: Answer) -> Iterator[Check]:
    report = evaluated(q, q.snapshot.players_of)
    answer.refusals, answer.consolidation = report.refusals, report
    yield from report.checks
    if report.plan is None:
        return
    yield backed_off(q.record.removal_failures, q.record.removal_backoff_until, q.now)
    if report.plan.sources:
        yield from _empty(q, answer, report, report.plan)
    else:
        yield from _remove(q, answer, report.plan)


def _remove(q: Question, answer: Answer, plan: ConsolidationPlan) -> Iterator[Check]:
    """The first path: what is empty goes, as many as may go at once; the others leave after them."""
    record = note_leaving(q.record, plan.empties, q.operation_id, q.settings, q.now)
    removals, refusals = choose_leaving(q.snapshot, record, q.settings, q.now)
    answer.refusals += refusals
    yield _some_can_go("an empty node can go", len(removals), refusals)
    answer.removals, answer.reason = removals, _in_words(plan)


def _empty(
    q: Question, answer: Answer, report: ConsolidationReport, plan: ConsolidationPlan
) -> Iterator[Check]:
    """The second path: pods are moved first."""
    plan, over = within_budgets(q, report, plan)
    asked = len(plan.sources)
    says = f"{count_of(asked, 'node')} may be emptied" + (f", no more: {over}" if over else "")
    yield Check("within budget", asked > 0, says, Values(asked, 1))
    least = q.settings.consolidation.least_savings(plan.cost_before)
    saved, required = two_prices(plan.savings_per_hour, least)
    says = f"{saved} {plan.currency}/h are saved within the budgets, {required} are required"
    yield Check(
        "still worth it",
        plan.savings_per_hour >= least,
        says,
        Values(float(plan.savings_per_hour), float(least)),
    )
    answer.consolidation = replace(report, plan=plan)
    answer.slots, answer.reason = plan.slots, _in_words(plan)


def _some_can_go(name: str, count: int, refusals: tuple[Refusal, ...]) -> Check:
    if count:
        return Check(name, True, f"{count} can go", Values(count, 1))
    first = next(iter(refusals), None)
    says = f"{first.node_name}: {first.reason}" if first else "nothing is leaving"
    return Check(name, False, says, Values(0, 1, first.node_name if first else ""))


def _in_words(plan: ConsolidationPlan) -> str:
    nodes = names_of([one.node_name for one in (*plan.sources, *plan.empties)])
    saves = f"saves {a_price(plan.savings_per_hour)} {plan.currency}/h"
    if not plan.sources:
        return f"consolidation: remove {nodes}, empty and idle; {saves}"
    launched = f", {len(plan.slots)} launched first" if plan.slots else ""
    return f"consolidation: empty {nodes} by {count_of(len(plan.moves), 'move')}{launched}; {saves}"
