"""Decisions compared: the real `decide` on a drawn cluster at many moments of its record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from ebbtide.core.nodes.decide import decide
from ebbtide.core.scale_to_zero.node_first import settings_for
from ebbtide.model.decision import Action, Decision
from ebbtide.model.idle import Phase
from ebbtide.model.policy import Target
from ebbtide.model.record import CapacityBackoff, DrainBackoff, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Market
from tests.builders import NOW, make_record, make_spot
from tests.oracle import launch, nodes, scale_down
from tests.oracle.answers import no
from tests.oracle.clusters import Drawn, clusters, pod_kinds, twins
from tests.oracle.drawing import Source
from tests.oracle.facts import By, Moment
from tests.oracle.suite import Report
from tests.oracle.translate import moment_of
from tests.policy_harness import make_policy, make_state

CPU = (0.0, 0.1, 0.1, 0.2, 0.2999, 0.30, 0.45, 0.70, 0.7001, 0.95, None)
IDLE = (600, 600, 5000, 599, 0)
PENDING = (0, 179, 180, 1000)
SCALED = (0, 0, 600, 599, 300, 299)
BACKOFF = (0, 0, 0, -1, 1)
MOMENTS = tuple(product(CPU, IDLE, PENDING, SCALED, BACKOFF))


@dataclass(frozen=True, slots=True)
class Deciding:
    cluster: Drawn
    moments: tuple[int, ...]
    odd: int
    """What else is in the record: a node that rests, an open notice, an offer without capacity, or
    nothing."""
    wakes: bool
    """Whether a policy has just woken the first pool."""


def cases(source: Source) -> Deciding:
    cluster = clusters(source, pod_kinds(source), source.pick((0, 3, 8)))
    if source.number(0, 5) == 5:
        cluster = twins(source, cluster)
    moments = source.numbers(0, len(MOMENTS) - 1, 12, 12)
    return Deciding(cluster, tuple(moments), source.number(0, 9), source.number(0, 7) == 7)


def record_at(case: Deciding, number: int) -> tuple[Record, float | None]:
    cpu, idle, pending, scaled, backoff = MOMENTS[number]
    first = case.cluster.nodes[0].name if case.cluster.nodes else "a0"
    odd = (
        {"rests": (DrainBackoff(f"i-{first}", NOW + 60, "it could not be drained"),)},
        {"spots": (make_spot(first),)},
        {"offer_rests": (CapacityBackoff("a/spot/small", NOW + 60),)},
        {"paused": True},
        {
            "launch_failures": 1,
            "launch_backoff_until": NOW + 60,
            "launch_backoff_offers": (case.cluster.settings.pools[-1].name,),
        },
    )
    record = make_record(
        idle_since=NOW - idle if idle else 0,
        pending_since=NOW - pending if pending else 0,
        last_scale_at=NOW - scaled if scaled else 0,
        removal_failures=int(backoff > 0),
        removal_backoff_until=NOW + backoff if backoff else 0,
    )
    return (replace(record, **odd[case.odd]) if case.odd < len(odd) else record), cpu


def compare(case: Deciding, report: Report) -> None:
    for number in case.moments:
        record, cpu = record_at(case, number)
        snapshot = case.cluster.seen(cpu)
        settings = woken(case.cluster.settings) if case.wakes else case.cluster.settings
        decision = decide(snapshot, record, settings, NOW, "d1")
        moment = moment_of(snapshot, record, settings, NOW)
        report.cases["decisions"] += 1
        if case.wakes:
            _judge_wake(decision, moment, record, report)
        else:
            judge(decision, moment, record, report)


def woken(settings: Settings) -> Settings:
    """As the engine derives them while the first pool is woken."""
    policy = make_policy(target=Target(pool=settings.pools[0].name))
    return settings_for(settings, [(policy, make_state(Phase.WAKING))])


def _judge_wake(decision: Decision, moment: Moment, record: Record, report: Report) -> None:
    """What a wake asks for; all else of such a moment is judged where nothing wakes."""
    pool = moment.settings.pools[0].name
    report.cases["decisions by wakes"] += 1
    ruling = launch.woken_at_once(moment, pool)
    launched = decision.action is Action.SCALE_UP and any(slot.pool == pool for slot in decision.slots)
    if ruling.demands and not launched and not record.offer_rests:
        report.differs(f"{pool} must get a node at once: {decision.action} ({decision.reason})")


def judge(decision: Decision, moment: Moment, record: Record, report: Report) -> None:
    names = [removal.node_name for removal in decision.removals]
    told = f"{decision.action} {', '.join(names) or len(decision.slots)} ({decision.reason})"
    stubborn = {
        node.name: scale_down.can_be_drained(moment, node.name, By.SCALE_DOWN)
        for node in moment.nodes
        if nodes.may_touch(node).allows
    }
    ordered = {name: scale_down.right_order(moment, name) for name in stubborn}
    preferred = {name: scale_down.keeps_preferred(moment, name) for name in stubborn}
    if decision.action is Action.SCALE_DOWN:
        rulings = [scale_down.may_start(moment, names), ordered[names[0]], preferred[names[0]]]
        rulings += [stubborn.get(name) or no(f"{name} is not ours") for name in names]
        report.check(rulings, f"scale-down: {told}")
        if len(names) > moment.settings.max_batch_down:
            report.differs(f"more than MAX_BATCH_DOWN: {told}")
    for name in list(stubborn)[:2]:
        scale_down.may_start(moment, [name])
    must_start, must_launch = scale_down.must_start(moment), launch.must_launch(moment)
    if must_start.demands and decision.action is not Action.SCALE_DOWN:
        refused = [
            f"{one.node_name}: {one.reason}" for verdict in decision.verdicts for one in verdict.refusals
        ]
        report.differs(f"a scale-down must start: {must_start.why}: {told} {refused}")
    if decision.action is Action.SCALE_UP:
        _judge_launch(decision, moment, record, told, report)
    else:
        launch.may_launch(moment, [moment.settings.pools[0].name])
        if must_launch.demands:
            report.differs(f"a launch must happen: {must_launch.why}: {told}")


def _judge_launch(decision: Decision, moment: Moment, record: Record, told: str, report: Report) -> None:
    """Every zone and market is asked about; what was chosen must be allowed."""
    report.check([launch.may_launch(moment, [slot.pool for slot in decision.slots])], f"launch: {told}")
    for number, slot in enumerate(decision.slots):
        pool = next(one for one in moment.settings.pools if one.name == slot.pool)
        for zone, market in product(pool.zones, Market):
            asked = replace(slot, zone=zone, market=market)
            rulings = [
                launch.right_zone(moment, asked, decision.slots[:number]),
                launch.right_market(moment, asked, bool(record.offer_rests)),
            ]
            if asked == slot and not record.offer_rests:
                report.check(rulings, f"launch: {told}")
    if len(decision.slots) > moment.settings.max_batch_up:
        report.differs(f"more than MAX_BATCH_UP: {told}")
