"""Simulated workloads: what controllers make, the scheduler binds, and evictions end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.nodes.fit import placement_of
from ebbtide.errors import BudgetExhausted, ConfigError, Final
from ebbtide.model.effect import Cordon, Evict
from ebbtide.model.pod import Pod, PodPhase
from ebbtide.model.snapshot import ClusterView
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimCluster
from ebbtide.simulator.world.rules import (
    BudgetSpec,
    Curve,
    Demand,
    Kind,
    Rules,
    WorkloadSpec,
    parse_recording,
    pod_template,
)
from ebbtide.simulator.world.world import World, add_system, database, deployment, guarded, pool

POOLS = (pool("general"),)


class Site:
    def __init__(self, zones: str = "abc", rules: Rules = Rules(), seed: int = 1) -> None:  # noqa: B008 - frozen
        self.clock = VirtualClock(0)
        self.world = World(rules, POOLS, seed, 0)
        for zone in zones:
            self.world.add_node("general", "cpx32", zone)
        self.cluster = SimCluster(self.world, self.clock)

    def after(self, seconds: float) -> ClusterView:
        self.clock.sleep(seconds)
        return self.cluster.read()

    def evict(self, pod: Pod) -> None:
        self.cluster.evict(Evict(pod.namespace, pod.name, pod.uid, pod.node_name, pod.grace_seconds))


def named(view: ClusterView, prefix: str) -> list[Pod]:
    return [pod for pod in view.pods if pod.name.startswith(prefix)]


def test_the_view_stays_the_same_object_until_something_changes() -> None:
    site = Site()
    site.world.add_workload(deployment("web", 100, 100))
    view = site.after(60)
    assert site.after(3600) is view
    site.world.controllers.set_wanted("default/web", 2)
    assert site.after(60) is not view


def test_what_the_view_has_computed_beforehand_is_what_it_would_compute() -> None:
    site = Site()
    add_system(site.world)
    site.world.add_workload(deployment("web", 900, 100, Demand(Curve.DAY, 2, 30)))
    site.world.add_workload(*database("database", 3))
    for _ in range(40):
        view = site.after(1800)
        plain = ClusterView(view.nodes, view.pods, view.budgets)
        assert view.pods_on == plain.pods_on
        assert view.waiting_pods == plain.waiting_pods


def test_pods_that_fit_nowhere_wait_and_are_counted_in_seconds() -> None:
    site = Site("a")
    site.world.add_workload(deployment("big", 3000, 100, Demand(low=2)))
    assert len(site.after(60).waiting_pods) == 1
    before = site.world.inventory.pending_pod_seconds
    site.after(100)
    assert site.world.inventory.pending_pod_seconds == pytest.approx(before + 100)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(100, 3000), st.integers(1, 5)), min_size=1, max_size=4), st.integers(0, 99)
)
def test_no_pod_is_pending_that_the_core_says_would_fit(workloads: list[tuple[int, int]], seed: int) -> None:
    site = Site(seed=seed)
    for number, (cpu, replicas) in enumerate(workloads):
        site.world.add_workload(deployment(f"w{number}", cpu, 64, Demand(low=replicas)))
    view = site.after(120)
    placement = placement_of(view)
    assert all(room.cpu_milli >= 0 for room in placement.rooms.values())
    assert all(placement.first_fit(pod) is None for pod in view.waiting_pods)


def test_an_evicted_pod_of_a_deployment_is_made_again_and_ends_after_its_time() -> None:
    site = Site()
    site.world.add_workload(deployment("web", 100, 100, Demand(low=2)))
    pod = named(site.after(60), "web")[0]
    site.evict(pod)
    view = site.after(2)
    assert [p.terminating for p in view.pods if p.uid == pod.uid] == [True]
    assert len(named(view, "web")) == 3
    assert len(named(site.after(30), "web")) == 2


def test_a_bare_pod_is_not_made_again() -> None:
    site = Site()
    site.world.add_workload(WorkloadSpec(pod_template("bare", 100, 100), Kind.BARE))
    (pod,) = named(site.after(60), "bare")
    assert pod.controller == ""
    site.evict(pod)
    assert not named(site.after(600), "bare")


def test_daemons_and_mirror_pods_are_on_every_node_and_go_with_it() -> None:
    site = Site()
    add_system(site.world)
    view = site.after(60)
    for node in view.nodes:
        kinds = {pod.controller for pod in view.pods_on[node.name]}
        assert {"DaemonSet", "Node"} <= kinds
    assert {pod.node_name for pod in named(view, "coredns")} == {
        node.name for node in view.nodes if node.control_plane
    }


def test_a_job_ends_and_is_not_started_again() -> None:
    site = Site()
    spec = WorkloadSpec(
        pod_template("job", 100, 100), Kind.JOB, Demand(Curve.BATCH, 0, 2, every_seconds=1000)
    )
    site.world.add_workload(replace(spec, run_seconds=100))
    assert [pod.phase for pod in named(site.after(60), "job")] == [PodPhase.RUNNING] * 2
    assert [pod.phase for pod in named(site.after(60), "job")] == [PodPhase.SUCCEEDED] * 2
    assert not named(site.after(300), "job")
    assert len(named(site.after(640), "job")) == 2


def test_a_pod_with_a_volume_stays_in_its_zone_and_the_volume_is_detached_after_it() -> None:
    site = Site("aab")
    site.world.add_workload(*database("db", 1))
    view = site.after(60)
    (pod,) = named(view, "db")
    home = view.node_named[pod.node_name]
    assert home.volumes_attached == pod.volumes
    assert pod.scheduling.volume_zones == (home.zone,)
    site.cluster.cordon(Cordon(home.name, home.uid, "op"), 1)
    site.evict(pod)
    ended = site.after(5.5)
    assert not [p for p in ended.pods if p.uid == pod.uid]
    assert ended.node_named[home.name].volumes_attached
    view = site.after(60)
    (again,) = named(view, "db")
    assert view.node_named[home.name].volumes_attached == ()
    assert (again.name, again.volumes, again.phase) == (pod.name, pod.volumes, PodPhase.RUNNING)
    assert view.node_named[again.node_name].zone == home.zone


def test_a_budget_counts_healthy_pods_only() -> None:
    site = Site()
    site.world.add_workload(*guarded(deployment("web", 100, 100, Demand(low=3)), 1))
    view = site.after(60)
    assert view.budgets[0].disruptions_allowed == 1
    first, second, _ = named(view, "web")
    site.evict(first)
    assert site.cluster.read().budgets[0].disruptions_allowed == 0
    with pytest.raises(BudgetExhausted):
        site.evict(second)


def test_two_budgets_over_one_pod_forbid_its_eviction_permanently() -> None:
    site = Site()
    spec = deployment("web", 100, 100)
    site.world.add_workload(spec, *(BudgetSpec(name, spec.key, max_unavailable=1) for name in "ab"))
    pod = named(site.after(60), "web")[0]
    with pytest.raises(Final, match="2 disruption budgets"):
        site.evict(pod)


def test_pods_of_a_dead_node_are_given_up_and_made_again_elsewhere() -> None:
    site = Site("ab")
    site.world.add_workload(deployment("web", 100, 100, Demand(low=4)))
    view = site.after(60)
    dead = view.workers[0]
    site.world.plan(60, "machine-dies", dead.provider_id.rsplit("/", 1)[1])
    view = site.after(300)
    alive = [pod for pod in named(view, "web") if not pod.terminating]
    assert len(alive) == 4
    assert {pod.node_name for pod in alive} == {view.workers[1].name}
    assert all(pod.terminating for pod in named(view, "web") if pod.node_name == dead.name)


def test_a_late_bind_puts_a_pod_on_a_node_just_after_its_cordon() -> None:
    site = Site("ab", Rules(late_bind_seconds=3))
    site.world.add_workload(deployment("web", 100, 100, Demand(low=2)))
    view = site.after(60)
    node = view.workers[0]
    before = {pod.uid for pod in view.pods_on[node.name]}
    site.cluster.cordon(Cordon(node.name, node.uid, "op"), 1)
    after = {pod.uid for pod in site.after(5).pods_on[node.name]}
    assert after - before


def test_demand_follows_the_day_and_bursts_and_what_was_recorded() -> None:
    day = Demand(Curve.DAY, 10, 50)
    assert (day.wanted_at(3 * 3600), day.wanted_at(15 * 3600)) == (10, 50)
    burst = Demand(Curve.BURST, 1, 9, every_seconds=1000, burst_seconds=100, offset_seconds=500)
    assert [burst.wanted_at(at) for at in (0, 500, 599, 600, 1500)] == [1, 9, 9, 1, 9]
    assert [burst.next_change(at) for at in (0, 500, 600)] == [500, 600, 1500]
    recorded = parse_recording(["seconds,replicas,workload", "0,3,web", "60,5,web", "0,1,api"])
    assert [recorded["web"].wanted_at(at) for at in (0, 59, 60, 999)] == [3, 3, 5, 5]
    assert recorded["web"].next_change(0) == 60
    assert recorded["web"].next_change(60) is None
    assert recorded["api"].wanted_at(5) == 1


@pytest.mark.parametrize(
    "lines",
    [
        ["time,count", "0,1"],
        ["seconds,replicas"],
        ["seconds,replicas", "0,many"],
        ["seconds,replicas", "60,1", "0,1"],
        ["seconds,replicas", "0,-1"],
        ["seconds,replicas", "nan,1"],
    ],
)
def test_a_bad_recording_is_refused_with_its_line(lines: list[str]) -> None:
    with pytest.raises(ConfigError, match="recording"):
        parse_recording(lines)
