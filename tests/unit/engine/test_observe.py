"""What was read completely is a snapshot; what was not is a snapshot with a problem."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from ebbtide.core.consolidation.game_servers import PLAN, UNKNOWN
from ebbtide.engine.outages import Origin, unread_in
from ebbtide.engine.ports import fresh, observe, read_players
from ebbtide.errors import Retryable, Throttled
from ebbtide.model.snapshot import ClusterView, Instance, Reading
from ebbtide.simulator.world.ports import SimCloud, SimCluster
from tests.builders import NOW, make_pod, make_settings
from tests.unit.engine.builders import Small


class SilentCluster(SimCluster):
    def read(self) -> ClusterView:
        raise Retryable("the API server does not answer")


class EmptyCluster(SimCluster):
    def read(self) -> ClusterView:
        return ClusterView()


class SilentCloud(SimCloud):
    def list_instances(self) -> Sequence[Instance]:
        raise Throttled("rate exceeded")


def test_a_whole_look_has_no_problem_and_knows_the_cpu_of_the_workers() -> None:
    small = Small()
    seen = observe(small.ports, small.settings)
    assert seen.problems == ()
    assert len(seen.cluster.workers) == 3
    assert seen.cpu.value is not None
    assert seen.at == small.now


def test_what_could_not_be_read_is_a_problem_and_not_an_empty_cluster() -> None:
    small = Small()
    blind = replace(
        small.ports,
        cluster=SilentCluster(small.world, small.clock),
        cloud=SilentCloud(small.world, small.clock),
    )
    known = observe(small.ports, small.settings)
    assert set(unread_in(observe(blind, small.settings), known)) == {Origin.CLUSTER, Origin.CLOUD}


def test_a_cluster_without_any_node_is_not_believed() -> None:
    small = Small()
    seen = observe(replace(small.ports, cluster=EmptyCluster(small.world, small.clock)), small.settings)
    assert set(unread_in(seen, observe(small.ports, small.settings))) == {Origin.CLUSTER}


@pytest.mark.parametrize("value", [0.0, 0.4])
def test_a_fresh_reading_is_taken_as_it_is(value: float) -> None:
    """A cluster that does nothing at all is known to do nothing."""
    reading = Reading(value, NOW - 180)
    assert fresh(reading, make_settings(), NOW) == reading


@pytest.mark.parametrize(
    ("reading", "problem"),
    [
        (Reading(problem="no answer"), "no answer"),
        (Reading(), "CPU is unknown"),
        (Reading(0.4, NOW - 181), "CPU is unknown: the last sample is 3 min 1 s old, more than 3 min"),
        (Reading(-0.1, NOW), "CPU is unknown: -0.1 is not a share of a CPU"),
        (Reading(math.nan, NOW), "CPU is unknown: nan is not a share of a CPU"),
        (Reading(math.inf, NOW), "CPU is unknown: inf is not a share of a CPU"),
    ],
)
def test_metrics_missing_stale_or_malformed_are_unknown(reading: Reading, problem: str) -> None:
    after = fresh(reading, make_settings(), NOW)
    assert (after.value, after.problem) == (None, problem)


class Crowd:
    """What the query for players finds, or None where it cannot be asked."""

    def __init__(self, found: Mapping[str, int] | None) -> None:
        self._found = found

    def read_players(self, query: str) -> Mapping[str, int] | None:
        return self._found


@pytest.mark.parametrize("asked", [Crowd(None), None])
def test_where_players_cannot_be_asked_for_those_of_every_game_server_are_unknown(
    asked: Crowd | None,
) -> None:
    small = Small()
    settings = make_settings(consolidation=replace(small.settings.consolidation, players_query="players"))
    server = make_pod("arena", labels=((PLAN, "reserved"),))
    view = ClusterView(pods=(server, make_pod("web")))
    found = read_players(replace(small.ports, players=asked), settings, view)
    assert found == (("default/arena", UNKNOWN),)


def test_players_are_what_the_query_says() -> None:
    small = Small()
    settings = make_settings(consolidation=replace(small.settings.consolidation, players_query="players"))
    ports = replace(small.ports, players=Crowd({"default/b": 2, "default/a": 0}))
    assert read_players(ports, settings, ClusterView()) == (("default/a", 0), ("default/b", 2))
