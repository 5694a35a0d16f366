"""Whether what was expected is what happened, and what was seen instead; and the result of a story as one
value, one JSON object, the same bytes for the same file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from typing import TYPE_CHECKING, Any

import msgspec

from ebbtide.core.nodes.offers import currencies
from ebbtide.model.log import LogKind
from ebbtide.model.pod import PodPhase
from ebbtide.model.record import Record
from ebbtide.simulator.checker.consolidation import Repacked
from ebbtide.simulator.run.runner import Stage
from ebbtide.simulator.story.event_schemas import (
    AtEndKeys,
    AtKeys,
    EndKeys,
    Expectation,
    HappensKeys,
    NeverKeys,
    SaysKeys,
)
from ebbtide.simulator.story.parse import Story
from ebbtide.simulator.story.recorder import Done, RecordedWorkloads, story_time
from ebbtide.simulator.world.world import CURRENCY, World

if TYPE_CHECKING:
    from ebbtide.simulator.story.play import Player

MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Look:
    replicas: dict[str, int]
    running: dict[str, int]


class Judge:
    def __init__(self, story: Story, stage: Stage, workloads: RecordedWorkloads) -> None:
        self._story = story
        self._stage = stage
        self._workloads = workloads
        self._looks: dict[int, _Look] = {}

    def look(self, number: int) -> None:
        """Remember how the workloads are that this expectation is about."""
        expected = self._story.keys.expect[number]
        assert isinstance(expected, AtKeys)
        self._looks[number] = _Look(
            {name: self._wanted(name) for name in expected.replicas or {}},
            {name: self._running(name) for name in expected.running or {}},
        )

    def verdict(self, acts: Sequence[Done], said: Sequence[Said], record: Record) -> tuple[Failed, ...]:
        failed = []
        for number, expected in enumerate(self._story.keys.expect):
            seen = self._seen_instead(number, expected, acts, said, record)
            if seen:
                written = self._story.expected[number]
                failed.append(Failed(written.values, written.line, seen))
        return tuple(failed)

    def _seen_instead(
        self, number: int, expected: Expectation, acts: Sequence[Done], said: Sequence[Said], record: Record
    ) -> str:
        match expected:
            case NeverKeys():
                found = [act for act in acts if self._meant(act, expected.never, expected)]
                return _told(found)
            case HappensKeys():
                return self._counted(expected, acts)
            case AtEndKeys():
                return self._ended(expected.at_end, record)
            case AtKeys():
                return _differs(expected, self._looks[number])
            case SaysKeys():
                return _unsaid(expected, said)

    def _counted(self, expected: HappensKeys, acts: Sequence[Done]) -> str:
        found = [act for act in acts if self._meant(act, expected.happens, expected)]
        most = expected.at_most
        if len(found) >= expected.least and (most is None or len(found) <= most):
            return ""
        elsewhere = [act for act in acts if act.act == expected.happens and act not in found]
        other = f"; of the others: {_told(elsewhere)}" if elsewhere and len(found) < expected.least else ""
        return f"{_times(expected.happens, len(found))}{': ' if found else ''}{_told(found)}{other}"

    def _meant(self, act: Done, kind: str, expected: NeverKeys | HappensKeys) -> bool:
        if act.act != kind or not expected.holds(act.at):
            return False
        if expected.node is not None and act.node != expected.node:
            return False
        if expected.pool not in (None, act.pool) or expected.market not in (None, act.market):
            return False
        if expected.pod is not None and not self._is_pod(act, expected.pod):
            return False
        return expected.workload is None or (
            self._workloads.key_of(act.workload) == self._workloads.key_of(expected.workload)
        )

    def _is_pod(self, act: Done, named: str) -> bool:
        namespace, _, name = named.rpartition("/")
        own = self._workloads.key_of(act.workload).partition("/")[0]
        return act.pod == name and namespace in ("", own)

    def _ended(self, expected: EndKeys, record: Record) -> str:
        world = self._stage.world
        workers = [node for node in world.inventory.nodes.values() if node.worker]
        seen = {
            "workers": len(workers),
            "waiting": len(world.inventory.waiting),
            "cordoned": sum(node.unschedulable for node in workers),
            "open_operations": len(record.spots) + len(record.operations),
        }
        wrong = [
            f"{name} is {seen[name]}"
            for name, wanted in expected.model_dump(exclude_none=True).items()
            if seen[name] != wanted
        ]
        return ", ".join(wrong)

    def _wanted(self, name: str) -> int:
        workload = self._stage.world.pods.book.workloads[self._workloads.key_of(name)]
        if workload.spec.kind.per_node:
            return len(self._stage.world.pods.members[workload.spec.key])
        return workload.wanted

    def _running(self, name: str) -> int:
        world, key = self._stage.world, self._workloads.key_of(name)
        pods = (world.inventory.pods[uid] for uid in world.pods.members[key])
        return sum(pod.phase is PodPhase.RUNNING and pod.ready for pod in pods)


def _differs(expected: AtKeys, look: _Look) -> str:
    wrong = []
    for what, wanted, seen in (
        ("asks for", expected.replicas or {}, look.replicas),
        ("runs", expected.running or {}, look.running),
    ):
        wrong += [f"{name} {what} {seen[name]}" for name, count in wanted.items() if seen[name] != count]
    return ", ".join(wrong)


def _unsaid(expected: SaysKeys, said: Sequence[Said]) -> str:
    inside = [one for one in said if expected.holds(one.at)]
    if any(expected.says in one.says for one in inside):
        return ""
    elsewhere = [one.at for one in said if expected.says in one.says]
    if elsewhere:
        return f"it appears only at {', '.join(map(str, elsewhere[:MOST_SHOWN]))}"
    if not inside:
        return "nothing was logged in that time"
    return f"no sentence contains it; the last one, at {inside[-1].at}, is: {inside[-1].says}"


def _times(act: str, count: int) -> str:
    return f"{act} {count} time{'' if count == 1 else 's'}"


def _told(acts: Sequence[Done]) -> str:
    shown = [
        " ".join(part for part in (f"{act.act} at {act.at}", act.pod, act.node and f"({act.node})") if part)
        for act in acts[:MOST_SHOWN]
    ]
    more = f" and {len(acts) - MOST_SHOWN} more" if len(acts) > MOST_SHOWN else ""
    return f"{', '.join(shown)}{more}"


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
        violations = tuple(map(str, stage.checker.violations))
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
