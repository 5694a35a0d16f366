"""Roll-outs: one to three times in the middle of a run, the configuration becomes another; some runners are
still on the one before for a while."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from ebbtide.model.pool import Pool
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Market
from ebbtide.simulator.run.scenarios import RollOut
from tests.swarm.wider import SPECIAL, special_pool, with_profile

ROLL_OUT_SHARE = 0.45
Change = Callable[[Settings, random.Random], Settings]


def roll_outs(settings: Settings, chance: random.Random, disturbed: int, tick: int) -> tuple[RollOut, ...]:
    if chance.random() >= ROLL_OUT_SHARE:
        return ()
    moments = sorted(chance.randint(tick, disturbed) for _ in range(chance.randint(1, 3)))
    found = []
    for at in moments:
        for change in chance.sample(CHANGES, chance.randint(1, 2)):
            settings = _sound(change(settings, chance))
        found.append(RollOut(at, settings, chance.choice((0, 0, 5, 15)) * tick))
    return tuple(found)


def _sound(settings: Settings) -> Settings:
    """As the configuration would be refused otherwise: the maximum has room for every minimum."""
    most = [pool.max_workers for pool in settings.pools]
    if sum(count or 0 for count in most) < settings.min_workers and None not in most:
        settings = replace(
            settings, pools=(replace(settings.pools[0], max_workers=None), *settings.pools[1:])
        )
    names = {"", *(pool.name for pool in settings.pools)}
    least = max(settings.min_workers, sum(pool.min_workers for pool in settings.pools), 1)
    return replace(
        settings,
        max_workers=max(settings.max_workers, least),
        headroom=tuple(one for one in settings.headroom if one.pool in names),
    )


def _another_maximum(settings: Settings, chance: random.Random) -> Settings:
    return replace(settings, max_workers=max(1, settings.max_workers + chance.choice((-3, -2, -1, 1, 3))))


def _another_minimum(settings: Settings, chance: random.Random) -> Settings:
    least = max(1, settings.min_workers + chance.choice((-2, -1, 1, 2)))
    return replace(settings, min_workers=min(least, settings.max_workers))


def _another_pool_size(settings: Settings, chance: random.Random) -> Settings:
    def resized(pool: Pool) -> Pool:
        least = chance.choice((0, 0, 1, 2))
        return replace(
            pool, min_workers=least, max_workers=chance.choice((None, least + chance.randint(0, 3)))
        )

    return _with_one(settings, chance, resized)


def _a_pool_more(settings: Settings, chance: random.Random) -> Settings:
    if settings.pool_named(SPECIAL) is None and chance.random() < 0.5:
        return replace(settings, pools=(*settings.pools, special_pool(settings, chance)))
    name = f"more{len(settings.pools)}"
    if settings.pool_named(name) is not None:
        return settings
    more = replace(settings.pools[0], name=name, min_workers=0, max_workers=None)
    return replace(settings, pools=(*settings.pools, replace(more, weight=chance.randint(0, 2))))


def _a_pool_less(settings: Settings, chance: random.Random) -> Settings:
    if len(settings.pools) == 1:
        return settings
    gone = chance.choice(settings.pools)
    return replace(settings, pools=tuple(pool for pool in settings.pools if pool is not gone))


def _a_pool_renamed(settings: Settings, chance: random.Random) -> Settings:
    return _with_one(settings, chance, lambda pool: replace(pool, name=f"{pool.name}-2"))


def _other_types(settings: Settings, chance: random.Random) -> Settings:
    every = {one.name: one for pool in settings.pools for one in pool.types}
    names = sorted(every)

    def retyped(pool: Pool) -> Pool:
        kept = chance.sample(names, chance.randint(1, len(names)))
        return replace(pool, types=tuple(every[name] for name in kept))

    return _with_one(settings, chance, retyped)


def _other_zones(settings: Settings, chance: random.Random) -> Settings:
    def moved(pool: Pool) -> Pool:
        zones = ("a", "b", "c")
        return replace(pool, zones=tuple(sorted(chance.sample(zones, chance.randint(1, 3)))))

    return _with_one(settings, chance, moved)


def _another_market(settings: Settings, chance: random.Random) -> Settings:
    def sold(pool: Pool) -> Pool:
        return replace(pool, market=Market.SPOT if pool.market is Market.ON_DEMAND else Market.ON_DEMAND)

    return _with_one(settings, chance, sold)


def _another_profile(settings: Settings, chance: random.Random) -> Settings:
    return with_profile(settings, chance.choice(("classic", "balanced", "eager")), chance)


def _another_launch(settings: Settings, chance: random.Random) -> Settings:
    """What its nodes are launched with changes, and they drift, where that is on."""
    fresh = f"of-{chance.randint(1, 99)}"
    on = replace(settings, replace_drifted=settings.replace_drifted or chance.random() < 0.5)
    return _with_one(on, chance, lambda pool: replace(pool, launch_hash=fresh))


def _with_one(settings: Settings, chance: random.Random, change: Callable[[Pool], Pool]) -> Settings:
    chosen = chance.choice(settings.pools)
    pools = tuple(change(pool) if pool is chosen else pool for pool in settings.pools)
    return replace(settings, pools=pools)


CHANGES: tuple[Change, ...] = (
    _another_maximum,
    _another_minimum,
    _another_pool_size,
    _a_pool_more,
    _a_pool_less,
    _a_pool_renamed,
    _other_types,
    _other_zones,
    _another_market,
    _another_profile,
    _another_launch,
)
