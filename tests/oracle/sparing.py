"""Headroom, weights, limits and spot capacity compared: the real `decide` on drawn clusters."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ebbtide.core.nodes.decide import decide
from ebbtide.model.decision import Action, Decision
from ebbtide.model.pool import Headroom, Pool, PoolLimits
from ebbtide.model.record import CapacityBackoff, Record
from ebbtide.model.snapshot import Market
from tests.builders import (
    NOW,
    make_daemon,
    make_node,
    make_pod,
    make_pool,
    make_record,
    make_settings,
    make_slot,
    make_type,
)
from tests.oracle import launch, nodes, pools, spare
from tests.oracle.clusters import PENDING, Drawn
from tests.oracle.drawing import Source
from tests.oracle.facts import Moment
from tests.oracle.suite import Report
from tests.oracle.translate import moment_of

HEADROOM: tuple[tuple[Headroom, ...], ...] = (
    (),
    (),
    (),
    (),
    (Headroom(1000, 1024, 2),),
    (Headroom(3000, 2048, 3),),
    (Headroom(500, 512, 30),),
    (Headroom(2000, 2048, 1, pool="second"),),
    (Headroom(1000, 1024, 2, zones=("b",)),),
    (Headroom(1000, 1024, 1), Headroom(2000, 4096, 1)),
)
TYPE, SPOT_TYPE = make_type(), make_type(spot_price="0.02")
LIMITS = (None, None, PoolLimits(cpu_milli=4000), PoolLimits(cpu_milli=12_000), PoolLimits(memory_mib=17_000))
KINDS = ("small",) * 9 + ("former",)
PODS = ((200, 256), (1500, 1024), (3500, 7000))


@dataclass(frozen=True, slots=True)
class Sparing:
    cluster: Drawn
    cpu: float
    record: Record


def cases(source: Source) -> Sparing:
    zones = source.picks("aabb", 0, 6)
    configured = (_pool(source, "workers"), _pool(source, "second"))
    drawn = tuple(
        make_node(
            f"{zone}{number}",
            pool=source.pick(("workers", "workers", "second")),
            instance_type=source.pick(KINDS),
        )
        for number, zone in enumerate(zones)
    )
    sizes = source.picks(PODS, 0, 5) if drawn else []
    pods = [make_daemon(node.name) for node in drawn]
    pods += [
        make_pod(f"p{number}", *size, node_name=source.pick(drawn).name) for number, size in enumerate(sizes)
    ]
    queued = source.pick(((), (), (), (0,), (1, 0), (2, 2, 2)))
    pods += [PENDING[kind](f"q{number}") for number, kind in enumerate(queued)]
    settings = make_settings(
        pools=configured,
        min_workers=0,
        max_workers=max(1, len(drawn)) + source.pick((0, 1, 4)),
        max_batch_up=source.pick((1, 3)),
        headroom=source.pick(HEADROOM),
    )
    rests = source.picks(("a/spot/small", "b/spot/small", "a/on-demand/small"), 0, 2)
    record = make_record(
        idle_since=NOW - source.pick((5000, 10)),
        pending_since=NOW - source.pick((1000, 1000, 5)) if queued else 0,
        last_scale_at=source.pick((0, 0, NOW - 299, NOW - 301)),
        launch_backoff_until=source.pick((0, 0, 0, NOW + 60)),
        launch_failures=1,
        offer_rests=tuple(CapacityBackoff(offer, NOW + 60) for offer in dict.fromkeys(rests)),
        paused=source.number(0, 9) == 9,
    )
    cpu = source.pick((0.1, 0.1, 0.5, 0.9))
    return Sparing(Drawn(drawn, tuple(pods), (), settings), cpu, record)


def _pool(source: Source, name: str) -> Pool:
    market = source.pick((Market.ON_DEMAND, Market.ON_DEMAND, Market.SPOT))
    made = make_pool(
        name,
        types=(SPOT_TYPE if market is Market.SPOT else TYPE,),
        market=market,
        on_demand_fallback=source.number(0, 2) > 0,
        weight=source.pick((0, 0, 5, 10)),
        limits=source.pick(LIMITS),
        max_workers=source.pick((None, None, 2)),
    )
    return replace(made, may_be_empty=source.number(0, 9) == 9)


def compare(case: Sparing, report: Report) -> None:
    settings = case.cluster.settings
    snapshot = case.cluster.seen(case.cpu)
    decision = decide(snapshot, case.record, settings, NOW, "d1")
    moment = moment_of(snapshot, case.record, settings, NOW)
    report.cases["headrooms and pools"] += 1
    for node in moment.nodes:
        spare.may_remove(moment, [node.name])
    for pool in settings.pools:
        pools.fits_limits(moment, pool, [pool.types[0].name] * 2)
        pools.right_pool(moment, make_slot(pool=pool.name), ())
    must = spare.must_launch(moment)
    told = f"{decision.action} ({decision.reason})"
    if decision.action is Action.SCALE_UP:
        _judge_launch(decision, moment, told, report)
    elif must.demands:
        report.differs(f"headroom must be filled: {must.why}: {told}")
    if decision.action is Action.SCALE_DOWN:
        names = [removal.node_name for removal in decision.removals]
        report.check([spare.may_remove(moment, names)], f"scale-down of {', '.join(names)}: {told}")


def _judge_launch(decision: Decision, moment: Moment, told: str, report: Report) -> None:
    asked = [launch.asked_for(moment), spare.asked_for(moment)]
    if not any(ruling.allows for ruling in asked):
        report.differs(f"nothing asks for a node: {told}")
    report.check([nodes.within_maximum(moment, [slot.pool for slot in decision.slots])], told)
    for pool in moment.settings.pools:
        kinds = [slot.instance_type for slot in decision.slots if slot.pool == pool.name]
        report.check([pools.fits_limits(moment, pool, kinds)] if kinds else [], told)
    for number, slot in enumerate(decision.slots):
        for pool in moment.settings.pools:
            for market in Market:
                other = replace(slot, pool=pool.name, market=market)
                rulings = [
                    pools.right_pool(moment, other, decision.slots[:number]),
                    pools.spot_first(moment, other),
                ]
                if other == slot:
                    report.check(rulings, f"slot {number} in {slot.pool} ({slot.market}): {told}")
