"""All doors to the outside in one value, so that a tick can be given another world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.engine.observers import Observers
from ebbtide.ports import Clock, Cloud, Cluster, Inbox, Metrics, Notifier, Observer, Store

NOBODY = Observers()


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
