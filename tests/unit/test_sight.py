"""Stale is not empty: what cannot be read keeps its last values, with their age."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.engine.outages import Origin
from ebbtide.entrypoints.api.site import Sight
from ebbtide.model.snapshot import NodeUse, Reading, Snapshot
from ebbtide.simulator.world.clock import VirtualClock
from tests.builders import NOW, make_instance, make_node, make_pod, make_snapshot

GONE = Snapshot(NOW + 60, problems=("the cluster could not be read: no answer",))


def seen_first() -> Snapshot:
    pods = [make_pod("web", node_name="a1")]
    return replace(
        make_snapshot([make_node("a1")], pods, cpu=Reading(0.4, NOW)), instances=(make_instance("i-1"),)
    )


def sight_of(*looks: Snapshot) -> tuple[Sight, VirtualClock]:
    coming = iter(looks)
    clock = VirtualClock(NOW)
    return Sight(lambda: next(coming), clock, seconds=0.0), clock


def test_a_cluster_that_cannot_be_read_keeps_its_nodes_and_says_since_when() -> None:
    first = seen_first()
    sight, clock = sight_of(first, replace(GONE, instances=first.instances))
    assert sight.seen().stale == ()
    clock.move_to(NOW + 60)
    seen = sight.seen()
    assert seen.snapshot.cluster == first.cluster
    assert [(each.origin, each.at) for each in seen.stale] == [(Origin.CLUSTER, NOW)]
    assert seen.snapshot.problems == GONE.problems, "nothing may be decided on it"
    assert not seen.never(Origin.CLUSTER)


def test_the_age_counts_from_the_last_answer_and_not_from_the_last_try() -> None:
    first = seen_first()
    sight, clock = sight_of(first, GONE, replace(GONE, at=NOW + 120))
    for second in (0, 60, 120):
        clock.move_to(NOW + second)
        seen = sight.seen()
    assert {each.at for each in seen.stale} == {NOW}
    assert seen.snapshot.cluster == first.cluster


def test_a_cloud_that_cannot_be_read_keeps_its_instances() -> None:
    first = seen_first()
    sight, clock = sight_of(first, replace(first, at=NOW + 60, instances=(), problems=("no cloud",)))
    sight.seen()
    clock.move_to(NOW + 60)
    seen = sight.seen()
    assert seen.snapshot.instances == first.instances
    assert [each.origin for each in seen.stale] == [Origin.CLOUD]


def test_metrics_that_were_known_are_named_with_their_last_value() -> None:
    first = seen_first()
    sight, clock = sight_of(first, replace(first, at=NOW + 60, cpu=Reading(problem="gone")))
    sight.seen()
    clock.move_to(NOW + 60)
    seen = sight.seen()
    assert [(each.origin, each.problem) for each in seen.stale] == [(Origin.METRICS, "gone")]
    assert seen.snapshot.cpu.value is None
    assert seen.last_cpu == 0.4


def test_what_was_never_read_is_unknown() -> None:
    sight, _ = sight_of(GONE)
    assert sight.seen().never(Origin.CLUSTER)


def test_everything_is_fresh_again_with_the_next_answer() -> None:
    first = seen_first()
    empty = make_snapshot([make_node("b1")], cpu=Reading(0.1, NOW + 120))
    sight, clock = sight_of(first, GONE, empty)
    for second in (0, 60, 120):
        clock.move_to(NOW + second)
        seen = sight.seen()
    assert seen.stale == ()
    assert [node.name for node in seen.snapshot.cluster.nodes] == ["b1"]


def test_the_use_of_a_node_is_that_of_its_last_sample_and_never_zero_for_want_of_one() -> None:
    nodes = [make_node("a1"), make_node("a2"), make_node("b1")]
    first = make_snapshot(nodes, cpu=Reading(0.4, NOW))
    later = replace(first, at=NOW + 60)
    looks = iter([first, later, replace(later, cpu=Reading(problem="gone"))])
    both = {"a1": NodeUse(0.5, 0.25, NOW), "a2": NodeUse(0.1, None, NOW)}
    answers = iter([both, {"a2": NodeUse(0.2, 0.5, NOW + 60)}])
    sight = Sight(lambda: next(looks), VirtualClock(NOW), seconds=0.0, read_use=lambda _: next(answers))
    one, two = nodes[0].uid, nodes[1].uid
    assert sight.seen().uses == {one: both["a1"], two: both["a2"]}
    known = {one: both["a1"], two: NodeUse(0.2, 0.5, NOW + 60)}
    assert sight.seen().uses == known
    assert sight.seen().uses == known, "metrics that are gone are not asked again, and the last values stay"


def test_what_a_node_used_is_forgotten_with_the_node() -> None:
    """Another that comes under its name has not been measured."""
    reused = make_node("a1", uid="another")
    looks = iter([make_snapshot([node], cpu=Reading(0.4, NOW)) for node in (make_node("a1"), reused)])
    answers = iter([{"a1": NodeUse(0.5, 0.25, NOW)}, {}])
    sight = Sight(lambda: next(looks), VirtualClock(NOW), seconds=0.0, read_use=lambda _: next(answers))
    assert len(sight.seen().uses) == 1
    assert sight.seen().uses == {}
