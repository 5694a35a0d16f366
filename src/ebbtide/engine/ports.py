"""All ports to the outside in one value, so a tick can run against a simulated world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.engine.observers import Observers
from ebbtide.engine.thinking import ALWAYS, Thinking
from ebbtide.model.settings import Settings
from ebbtide.ports import (
    Clock,
    Cloud,
    Cluster,
    Declarations,
    Inbox,
    Metrics,
    Notifier,
    Observer,
    Players,
    Services,
    Signals,
    Store,
    Workloads,
)

NOBODY = Observers()
SettingsNow = Callable[[Settings], Settings]


def as_they_are(settings: Settings) -> Settings:
    return settings


def nothing_urgent() -> int:
    return 0


def never() -> float:
    return 0.0


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
    thinking: Thinking = ALWAYS
    """What computes timers and decisions; a simulation need not compute what comes out the same."""
