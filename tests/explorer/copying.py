"""A stage copied, so many futures can be tried from one present.

Frozen values are shared. What can change is copied once, however many hold it, and an object of a class
that is not known here is refused: a copy that shares something by mistake would make the search worthless.
"""

from __future__ import annotations

import random
from dataclasses import is_dataclass, replace
from decimal import Decimal
from enum import Enum
from types import FunctionType, MethodType, NoneType
from typing import Any

from ebbtide.adapters.stores.memory import MemoryDatabase
from ebbtide.adapters.stores.memory_policies import PolicyTables
from ebbtide.model.snapshot import Load
from ebbtide.simulator.checker.checker import Checker
from ebbtide.simulator.run.runner import Stage
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimNotifier
from ebbtide.simulator.world.world import World
from tests.oracle.witness import Witness


class Certain(random.Random):
    """For a world in which nothing is left to chance. Copies cannot share a generator: what one path draws
    would change what happens on all others, and no path could be gone again."""

    def random(self) -> float:
        raise AssertionError("a scene must not leave anything to chance: say what happens")

    def uniform(self, a: float, b: float) -> float:
        assert a == b, f"a scene must not leave anything to chance: it draws from {a} to {b}"
        return a


PLAIN = {int, str, float, bool, bytes, tuple, frozenset, NoneType, Decimal, Certain}
CALLS = {FunctionType, MethodType}
REBUILT = {"_placement"}
"""Caches of mutable values: the copy starts with its own, empty."""

SHARED: set[type] = {*PLAIN, Load}
"""Classes of which values are shared, as far as they have been met. A load keeps only what pure functions
make of its pods, which never change."""

Memo = dict[int, Any]


def copy_stage(stage: Stage) -> Stage:
    world = copy_world(stage.world)
    checker = Checker(world, stage.settings)
    memo: Memo = {id(stage.world): world, id(stage.settings): stage.settings}
    _transfer(stage.checker, checker, memo)
    database = MemoryDatabase()
    database.items = {key: dict(item) for key, item in stage.database.items.items()}
    for key, tables in stage.database.policies.items():
        database.policies[key] = fresh = PolicyTables()
        for name, rows in vars(tables).items():
            getattr(fresh, name).update(rows)
    clock = VirtualClock(stage.clock.now())
    copied = replace(
        stage, world=world, clock=clock, database=database, checker=checker, notifier=SimNotifier()
    )
    Witness(copied)
    return copied


def dismantle(stage: Stage) -> None:
    """Untie what is no longer needed, so it goes at once: the search makes too many of them."""
    world = stage.world
    for part in [*vars(world).values(), world.pods.scheduler, stage.checker]:
        if hasattr(part, "__dict__"):
            vars(part).clear()
    vars(world).clear()


def copy_world(world: World) -> World:
    fresh = World(world.rules, tuple(world.machines.book.pools.values()), world.seed, world.now)
    memo: Memo = {}
    _transfer(world, fresh, memo)
    scheduler = fresh.pods.scheduler
    vars(scheduler)["_stale"].update(fresh.inventory.nodes)
    return fresh


def _transfer(source: object, target: object, memo: Memo) -> None:
    """Give `target`, freshly made and of the same class, all that `source` has."""
    memo[id(source)] = target
    mine = vars(target)
    for name, value in vars(source).items():
        if name in REBUILT or name == "witnesses":
            continue
        kind = type(value)
        if kind in SHARED:
            mine[name] = value
        elif kind in CALLS:
            continue
        elif kind is random.Random:
            raise TypeError("copies must not share a generator of chance: give the world a Certain one")
        elif id(value) in memo:
            mine[name] = memo[id(value)]
        elif hasattr(value, "__dict__") and not is_dataclass(value):
            _transfer(value, mine[name], memo)
        else:
            copied = _copied(value, memo)
            if copied is not None:
                mine[name] = copied


def _copied(value: Any, memo: Memo) -> Any:
    """A copy, the value itself where it is frozen, or None for a table of calls."""
    kind = type(value)
    if kind in SHARED or _frozen(kind):
        return value
    known = memo.get(id(value))
    if known is not None:
        return known
    fresh: Any
    if kind is dict:
        first = type(next(iter(value.values()), None))
        if first in CALLS:
            return None
        frozen = first in SHARED or _frozen(first)
        fresh = dict(value) if frozen else {key: _copied(one, memo) for key, one in value.items()}
    elif kind is list:
        frozen = not value or _frozen(type(value[0]))
        fresh = list(value) if frozen else [_copied(one, memo) for one in value]
    elif kind is set:
        fresh = set(value)
    elif is_dataclass(value):
        fresh = object.__new__(kind)
        memo[id(value)] = fresh
        for name in kind.__slots__:
            part = getattr(value, name)
            setattr(fresh, name, part if type(part) in SHARED else _copied(part, memo))
    else:
        raise TypeError(
            f"the explorer does not know how to copy a {kind.__name__}: teach tests/explorer/copying"
        )
    memo[id(value)] = fresh
    return fresh


def _frozen(kind: type) -> bool:
    """Whether values of this class cannot change; remembered, since it is asked often."""
    if kind in SHARED:
        return True
    parameters = getattr(kind, "__dataclass_params__", None)
    if issubclass(kind, Enum) or (parameters is not None and parameters.frozen):
        SHARED.add(kind)
        return True
    return False
