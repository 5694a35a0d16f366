"""Observe cluster, cloud and metrics. Whatever could not be read completely becomes a problem of the
snapshot, and a snapshot with a problem is never a reason for a removal."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.core.consolidation.game_servers import UNKNOWN, labels_of
from ebbtide.core.words import a_while
from ebbtide.engine.ports import Ports
from ebbtide.errors import EbbtideError
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Reading, Snapshot


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
    cpu = ports.metrics.read_cpu([node.name for node in view.workers if node.ready])
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
