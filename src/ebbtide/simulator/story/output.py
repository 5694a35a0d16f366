"""What comes of a story: one value, one JSON object, the same bytes for the same file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from typing import TYPE_CHECKING, Any

import msgspec

from ebbtide.core.nodes.offers import currencies
from ebbtide.model.log import LogKind
from ebbtide.simulator.checker.consolidation import Repacked
from ebbtide.simulator.run.runner import Stage
from ebbtide.simulator.story.parse import Story
from ebbtide.simulator.story.recorder import Done, story_time
from ebbtide.simulator.world.catalogue import CURRENCY
from ebbtide.simulator.world.world import World

if TYPE_CHECKING:
    from ebbtide.simulator.story.play import Player


@dataclass(frozen=True, slots=True)
class Said:
    """What a tick said, and when."""

    at: int | float
    says: str


@dataclass(frozen=True, slots=True)
class Failed:
    """An expectation that does not hold."""

    expect: Mapping[str, Any]
    """As it is written."""
    line: int
    seen: str
    """What was seen instead."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds from the making of a pod until it ran, of those that did not fit at once."""

    p50: int | float = 0
    p90: int | float = 0
    p99: int | float = 0
    max: int | float = 0
    pods: int = 0


@dataclass(frozen=True, slots=True)
class StoryTotals:
    node_seconds: float
    cost: Decimal
    waited_seconds: float

    def since(self, before: StoryTotals) -> StoryTotals:
        return StoryTotals(
            self.node_seconds - before.node_seconds,
            self.cost - before.cost,
            self.waited_seconds - before.waited_seconds,
        )


def totals_of(world: World) -> StoryTotals:
    machines = world.machines
    return StoryTotals(machines.node_seconds(), machines.cost(), world.inventory.pending_pod_seconds)


@dataclass(frozen=True, slots=True)
class StoryResult:
    name: str
    ok: bool
    failed: tuple[Failed, ...]
    violations: tuple[str, ...]
    runner: str
    seed: int
    seconds: int | float
    launched: int
    removed: int
    evictions: int
    interruptions: int
    node_hours: float
    cost: str
    currency: str
    pending_pod_seconds: int
    waits: Waits
    crashes: int
    failed_ticks: int
    alarms: int
    sentences: int
    consolidation: Repacked
    acts: tuple[Done, ...]
    ticks: tuple[Said, ...]

    @classmethod
    def of(
        cls,
        story: Story,
        stage: Stage,
        totals: StoryTotals,
        told: tuple[tuple[Done, ...], tuple[Said, ...], tuple[Failed, ...]],
        player: Player,
    ) -> StoryResult:
        world, keys = stage.world, story.keys
        acts, ticks, failed = told
        violations = tuple(stage.checker.violations)
        return cls(
            name=keys.name,
            ok=not failed and not violations,
            failed=failed,
            violations=violations,
            runner=keys.runner,
            seed=keys.seed,
            seconds=story_time(keys.until),
            launched=world.machines.book.launched,
            removed=world.removed,
            evictions=world.evictions,
            interruptions=world.incidents.mail.interruptions,
            node_hours=round(totals.node_seconds / 3600, 3),
            cost=str(totals.cost.quantize(Decimal("0.0001"))),
            currency=next(iter(currencies(story.config.settings.pools)), CURRENCY),
            pending_pod_seconds=round(totals.waited_seconds),
            waits=waits_of(world.pods.waits),
            crashes=player.crashes,
            failed_ticks=player.failed_ticks,
            alarms=sum(1 for entry in stage.notifier.entries if entry.kind is LogKind.ALARM),
            sentences=len(ticks),
            consolidation=stage.bookkeeper.totals,
            acts=acts,
            ticks=ticks,
        )

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()


def waits_of(seconds: Sequence[float]) -> Waits:
    """By nearest rank: each value is the wait of some pod."""
    if not seconds:
        return Waits()
    waits = sorted(seconds)

    def rank(percent: int) -> int | float:
        return story_time(waits[max(ceil(len(waits) * percent / 100), 1) - 1])

    return Waits(rank(50), rank(90), rank(99), story_time(waits[-1]), len(waits))
