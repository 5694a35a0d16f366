"""All doors to the outside in one value, so that a tick can be given another world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.engine.observers import Observers
from ebbtide.model.settings import Settings
from ebbtide.ports import (
    Clock,
    Cloud,
    Cluster,
    Inbox,
    Metrics,
    Notifier,
    Observer,
    Players,
    Signals,
    Store,
    Workloads,
)

NOBODY = Observers()
SettingsNow = Callable[[Settings], Settings]


def as_they_are(settings: Settings) -> Settings:
    return settings


@dataclass(frozen=True, slots=True)
class Outside:
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
    settings_now: SettingsNow = as_they_are
    """What policies make of the settings of a tick: a pool that sleeps may be empty."""
