"""All ports in one value, so a tick can run against a simulated world; also observers, the pure steps of
a tick, and `observe`.

`observe` reads cluster, cloud and metrics. What could not be read completely becomes a problem of the
snapshot. An observer only watches: if one fails, the tick continues. `ports.thinking` runs the pure steps:
`ALWAYS` computes them every time, while a simulation may use `engine.steady`, which reuses results that
provably stay the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ebbtide.core.consolidation.emptied_nodes import track_leaving
from ebbtide.core.consolidation.game_servers import UNKNOWN, labels_of
from ebbtide.core.nodes import decide
from ebbtide.core.nodes.orphans import Foreign, newly_foreign, track_orphans
from ebbtide.core.nodes.timers import TimerWarning, track
from ebbtide.core.nodes.unwell import track_unfit
from ebbtide.core.words import a_while
from ebbtide.errors import EbbtideError
from ebbtide.model.decision import Decision
from ebbtide.model.effect import Outcome
from ebbtide.model.operation import Operation, Spot
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Reading, Snapshot
from ebbtide.ports import (
    Clock,
    Cloud,
    Cluster,
    Declarations,
    Inbox,
    Metrics,
    NodeUses,
    Notifier,
    Observer,
    Players,
    Services,
    Signals,
    Store,
    Workloads,
)

_log = logging.getLogger(__name__)
SettingsNow = Callable[[Settings], Settings]
Expecting = Callable[[Settings, Snapshot], Settings]
Tracked = tuple[Record, tuple[TimerWarning | Foreign, ...]]
"""The record with its timers brought up to now, and what had to be corrected."""


class Observers:
    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def looked(self, snapshot: Snapshot, record: Record) -> None:
        self._tell(lambda each: each.looked(snapshot, record))

    def decided(self, decision: Decision) -> None:
        self._tell(lambda each: each.decided(decision))

    def began(self, work: Operation | Spot) -> None:
        self._tell(lambda each: each.began(work))

    def advanced(self, before: Operation | Spot, after: Operation | Spot) -> None:
        self._tell(lambda each: each.advanced(before, after))

    def performed(self, outcomes: Sequence[Outcome]) -> None:
        self._tell(lambda each: each.performed(outcomes))

    def closed(self, work: Operation | Spot, succeeded: bool) -> None:
        self._tell(lambda each: each.closed(work, succeeded))

    def ticked(self, seconds: float, held: bool, error: str) -> None:
        self._tell(lambda each: each.ticked(seconds, held, error))

    def _tell(self, tell: Callable[[Observer], None]) -> None:
        for each in self._observers:
            try:
                tell(each)
            except Exception as error:  # whatever it is: deciding does not depend on it
                _log.warning("%s failed: %s: %s", type(each).__name__, type(error).__name__, error)


NOBODY = Observers()


class Thinking(Protocol):
    def track(self, snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Tracked: ...

    def decide(
        self, snapshot: Snapshot, record: Record, settings: Settings, now: int, decision_id: str
    ) -> Decision: ...


class Always:
    """Computes every time."""

    def track(self, snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Tracked:
        before, (record, warnings) = record, track(snapshot, record, settings, now)
        record = track_leaving(snapshot, record, settings, now)
        record = track_orphans(snapshot, record, settings, now)
        foreign = newly_foreign(snapshot, before, record, settings, now)
        return track_unfit(snapshot, record, settings, now), (*warnings, *foreign)

    def decide(
        self, snapshot: Snapshot, record: Record, settings: Settings, now: int, decision_id: str
    ) -> Decision:
        return decide.decide(snapshot, record, settings, now, decision_id)


ALWAYS = Always()


def as_they_are(settings: Settings) -> Settings:
    return settings


def nothing_expected(settings: Settings, _snapshot: Snapshot) -> Settings:
    return settings


def nothing_urgent() -> int:
    return 0


def never() -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class ClusterPorts:
    """What is scaled: all ports except the store and the notifier."""

    cluster: Cluster
    cloud: Cloud
    metrics: Metrics
    inbox: Inbox
    clock: Clock
    observers: tuple[Observer, ...] = ()
    workloads: Workloads | None = None
    signals: Signals | None = None
    players: Players | None = None
    urgencies: Callable[[], int] = nothing_urgent
    services: Services | None = None
    declarations: Declarations | None = None
    arrived_at: Callable[[], float] = never
    launches_at_once: int = 1
    uses: NodeUses | None = None


@dataclass(frozen=True, slots=True)
class Ports:
    store: Store
    cluster: Cluster
    cloud: Cloud
    metrics: Metrics
    inbox: Inbox
    notifier: Notifier
    clock: Clock
    new_id: Callable[[], str]
    """Ids that are unique and grow with time."""
    observer: Observer = NOBODY
    workloads: Workloads | None = None
    signals: Signals | None = None
    """Both are for `engine.scaling`; a tick asks for neither."""
    players: Players | None = None
    """For `consolidation.players_query`; without it nobody knows whether anybody plays."""
    uses: NodeUses | None = None
    """What single nodes really use, for the page; a tick does not ask."""
    urgencies: Callable[[], int] = nothing_urgent
    """Grows with everything that a tick should answer at once: a pod that no node takes, a node that became
    Ready, a policy that wakes. Asked often, so it must cost nothing; who cannot know leaves it at 0."""
    arrived_at: Callable[[], float] = never
    """When the last pod came that no node takes; 0 where none did, or nobody knows. More may follow it."""
    launches_at_once: int = 1
    """How many launch calls may be in flight: more than one only where the cloud's client allows it."""
    services: Services | None = None
    """For wake on request; as `workloads`, for `engine.scaling`."""
    declarations: Declarations | None = None
    """For policies that objects of the cluster declare; for `engine.scaling`, too."""
    keeps_inputs: bool = True
    """Whether the log keeps all that a decision was made from; a simulation, which can be played again, does
    without: on a large cluster that is a fifth of its time."""
    settings_now: SettingsNow = as_they_are
    """What policies make of the settings of a tick: a pool that sleeps may be empty."""
    expecting: Expecting = nothing_expected
    """What a forecast adds to the settings of a tick: room ahead of expected demand. It must not raise."""
    thinking: Thinking = ALWAYS
    """What computes timers and decisions; a simulation need not compute what comes out the same."""


def observe(ports: Ports, settings: Settings) -> Snapshot:
    problems: list[str] = []
    view = ClusterView()
    try:
        view = ports.cluster.read()
    except EbbtideError as error:
        problems.append(f"the cluster could not be read: {error}")
    else:
        if not view.nodes:
            problems.append("the cluster shows no node at all")
    try:
        instances = tuple(ports.cloud.list_instances())
    except EbbtideError as error:
        instances = ()
        problems.append(f"the cloud could not be read: {error}")
    now = int(ports.clock.now())
    # A worker that is not Ready has no fresh sample while it is dead: that must not hide the others' load.
    cpu = ports.metrics.read_cpu(view.ready_names)
    players = read_players(ports, settings, view)
    return Snapshot(now, view, instances, fresh(cpu, settings, now), tuple(problems), players)


def read_players(ports: Ports, settings: Settings, view: ClusterView) -> tuple[tuple[str, int], ...]:
    """What the query says; where it cannot be asked, that of every game server is unknown, whatever its
    annotation says: it may be old."""
    query = settings.consolidation.players_query
    if not query:
        return ()
    found = ports.players.read_players(query) if ports.players is not None else None
    if found is None:
        return tuple((pod.full_name, UNKNOWN) for pod in view.pods if labels_of(pod))
    return tuple(sorted(found.items()))


def fresh(reading: Reading, settings: Settings, now: int) -> Reading:
    """An old or impossible reading is no reading."""
    if reading.value is None:
        return replace(reading, problem=reading.problem or "CPU is unknown")
    age = now - reading.at
    if age > settings.metric_max_age_seconds:
        limit = a_while(settings.metric_max_age_seconds)
        old = f"CPU is unknown: the last sample is {a_while(age)} old, more than {limit}"
        return Reading(None, reading.at, old)
    if not 0 <= reading.value < float("inf"):
        return Reading(None, reading.at, f"CPU is unknown: {reading.value} is not a share of a CPU")
    return reading
