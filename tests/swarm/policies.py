"""Policies of every kind over one cluster: pools that sleep next to others, groups, rules, schedules."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from dataclasses import replace

from ebbtide.model.pod import Scheduling, WorkloadKind, WorkloadRef
from ebbtide.model.policy import Operator, Policy, Rule, Schedule, Signal, SignalKind, Target
from ebbtide.model.pool import Pool
from ebbtide.model.settings import Settings
from ebbtide.simulator.world.rules import Curve, Demand, WorkloadSpec, pod_template
from ebbtide.simulator.world.world import World
from tests.swarm.wider import SPECIAL, TOLERATION

POLICIES_SHARE = 0.5
USED_SECONDS = 300
NIGHT = (Schedule("*/20 * * * *", replicas=0), Schedule("10-59/20 * * * *", wake=True))
"""Asleep for ten minutes of every twenty."""


def add_policies(
    world: World, settings: Settings, chance: random.Random, disturbed: int, now: int
) -> tuple[Policy, ...]:
    if chance.random() >= POLICIES_SHARE:
        return ()
    found: list[Policy] = []
    kinds = chance.sample((_pool, _group, _ruled, _by_night), chance.randint(1, 3))
    for kind in kinds:
        found += kind(world, settings, chance, disturbed)
    return tuple(
        replace(policy, id=str(uuid.UUID(int=100 + number)), created_at=now, updated_at=now)
        for number, policy in enumerate(found)
    )


def _pool(world: World, settings: Settings, chance: random.Random, disturbed: int) -> Iterator[Policy]:
    """A pool that sleeps by its schedule or while nobody uses what runs there, which may sleep as well."""
    pool = settings.pool_named(SPECIAL) or settings.pools[-1]
    if len(settings.pools) == 1 and chance.random() < 0.7:
        return
    _add(world, "tenant", chance, disturbed, _there(pool))
    signals = () if chance.random() < 0.3 else (_used("tenant"),)
    schedules = NIGHT if not signals or chance.random() < 0.3 else ()
    least = chance.choice((1, 1, 2))
    yield Policy(
        "",
        "pool",
        Target(pool=pool.name),
        min_replicas=least,
        scale_to_zero=bool(signals),
        signals=signals,
        schedules=schedules,
    )
    if chance.random() < 0.6:
        yield Policy("", "tenant", _of("tenant"), scale_to_zero=True, signals=(_used("tenant"),))


def _group(world: World, settings: Settings, chance: random.Random, disturbed: int) -> Iterator[Policy]:
    for name in ("pair-a", "pair-b"):
        _add(world, name, chance, disturbed)
    schedules = NIGHT if chance.random() < 0.3 else ()
    yield Policy(
        "",
        "pair",
        _of("pair-a", "pair-b"),
        scale_to_zero=True,
        signals=(_used("pair-a"),),
        schedules=schedules,
    )


def _ruled(world: World, settings: Settings, chance: random.Random, disturbed: int) -> Iterator[Policy]:
    _add(world, "ruled", chance, disturbed)
    query = _used("ruled").query
    yield Policy(
        "",
        "ruled",
        _of("ruled"),
        max_replicas=chance.randint(2, 5),
        cooldown_seconds=chance.choice((0, 60)),
        scale_to_zero=chance.random() < 0.5,
        signals=(_used("ruled"),),
        rules=(
            Rule(query, Operator.GT, 3, chance.choice((0, 60)), chance.randint(1, 2)),
            Rule(query, Operator.LT, 1, 60, -1),
        ),
    )


def _by_night(world: World, settings: Settings, chance: random.Random, disturbed: int) -> Iterator[Policy]:
    _add(world, "office", chance, disturbed)
    yield Policy("", "office", _of("office"), schedules=NIGHT)


def _of(*names: str) -> Target:
    return Target(tuple(WorkloadRef(WorkloadKind.DEPLOYMENT, "default", name) for name in names))


def _used(name: str) -> Signal:
    return Signal(SignalKind.PROMQL_RATE, f'requests{{workload="default/{name}"}}')


def _there(pool: Pool) -> Scheduling:
    """On that pool alone, where it has a label."""
    return Scheduling(node_selector=pool.labels, tolerations=(TOLERATION,) if pool.taints else ())


def _add(
    world: World, name: str, chance: random.Random, disturbed: int, where: Scheduling | None = None
) -> None:
    """A Deployment that people use now and then, the last time soon after the faults have ceased."""
    begins = [*range(chance.randint(0, 900), disturbed, chance.choice((900, 1800))), disturbed + 300]
    points = tuple(point for at in begins for point in ((at, 5), (at + USED_SECONDS, 0)))
    template = pod_template(name, chance.choice((100, 300, 600)), 128)
    if where is not None:
        template = replace(template, scheduling=where)
    spec = WorkloadSpec(template, demand=Demand(low=chance.randint(1, 2)), use_fraction=0.3)
    requests = Demand(Curve.RECORDED, points=((0, 0), *points))
    world.add_workload(replace(spec, requests=requests, start_seconds=chance.choice((5.0, 20.0))))
