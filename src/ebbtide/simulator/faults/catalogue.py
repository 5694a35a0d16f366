"""Faults by name, as `ebbtide simulate --faults` takes them, and what each means for a simulation.

Some lie in a runner's calls (`plan_for`), some in the world from the start (`spoil`), and some are done by
people and other programs while it runs (`mischief`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ebbtide.errors import ConfigError
from ebbtide.simulator.faults.calls import Distortion, RandomPlan, Strike
from ebbtide.simulator.world.rules import Rules, Span
from ebbtide.simulator.world.world import World

FAULTS: Mapping[str, str] = {
    "crash": "the runner dies before or after a call",
    "crash-before": "the runner dies before a call",
    "crash-after": "the runner dies after a call that was carried out",
    "lost-reply": "a call is carried out and its reply lost",
    "delayed-landing": "a call gets no answer and is carried out some calls later",
    "failed-call": "a call fails and is not carried out",
    "server-error": "a call is answered by an error of the server, and nobody can tell whether it was done",
    "throttling": "a call is refused for now",
    "lease-expiry": "a call takes longer than the lease lasts",
    "stall": "the runner freezes before a call until its lease has run out, and another takes over",
    "nested-stall": "the runner freezes, and the one that takes over freezes as well",
    "second-runner": "another runner ticks at the same time, with a clock of its own",
    "restart": "the runner is stopped after a tick and another started, with a new owner id",
    "clock-jump": "the runner's clock jumps for a tick",
    "clock-skew": "the runner's clock is some seconds off all the time",
    "stale-list": "the cluster or the cloud shows an old list",
    "empty-list": "the cluster or the cloud shows nothing at all",
    "partial-page": "the cluster or the cloud cannot be read completely",
    "false-not-found": "a node or an instance is not shown although it is there",
    "torn-view": "nodes and pods are listed up to 90 seconds apart",
    "pod-holes": "some pods are not shown although they are there, and all nodes are",
    "metrics-gone": "the CPU of the nodes is unknown for a while",
    "metrics-absurd": "the CPU of the nodes is old, negative, infinite or not a number",
    "store-failover": "the store does not answer for a while",
    "newer-record": "a newer version writes the record and is taken back",
    "poison-record": "the record cannot be read until a person repairs it",
    "pause": "a person pauses removals, and resumes",
    "human-cordon": "a person cordons nodes, and lifts their cordons or ours",
    "budget-exhausted": "an eviction is refused for now by a disruption budget",
    "eviction-refused": "an eviction is refused for good",
    "late-bind": "a pod is bound to a node just after its cordon",
    "no-capacity": "the cloud has nothing to give in some zone for a while",
    "slow-to-appear": "a new instance is not listed for a while",
    "never-joins": "some instances boot and never join",
    "late-joins": "some instances join only after everybody has given them up",
    "slow-detach": "volumes take minutes to be detached",
    "node-loss": "a machine dies without notice",
    "mass-loss": "most of the machines die at once",
    "unlisted": "an instance that is gone is not listed any more, from that moment on",
    "names-taken-over": "a new machine joins at once under the name of a dead one, with the same address",
    "spot-loss": "the cloud takes spot instances back",
    "zone-loss": "a zone is dark for a while",
    "duplicate-notices": "a spot notice comes twice",
    "late-notices": "spot notices come late and out of order",
}

_STRIKES: Mapping[str, Mapping[Strike, float]] = {
    "crash": {Strike.CRASH_BEFORE: 0.01, Strike.CRASH_AFTER: 0.01},
    "crash-before": {Strike.CRASH_BEFORE: 0.02},
    "crash-after": {Strike.CRASH_AFTER: 0.02},
    "lost-reply": {Strike.LOST_REPLY: 0.02},
    "delayed-landing": {Strike.DELAYED: 0.01},
    "failed-call": {Strike.FAILED: 0.02},
    "server-error": {Strike.SERVER_ERROR: 0.02},
    "throttling": {Strike.THROTTLED: 0.02},
    "lease-expiry": {Strike.SLOW: 0.005},
    "stall": {Strike.STALL: 0.005},
    "nested-stall": {Strike.STALL: 0.01},
    "budget-exhausted": {Strike.BUDGET: 0.04},
    "eviction-refused": {Strike.REFUSED: 0.02},
}
_LISTS: Mapping[str, Mapping[Distortion, float]] = {
    "stale-list": {Distortion.STALE: 0.05},
    "empty-list": {Distortion.EMPTY: 0.03},
    "partial-page": {Distortion.GONE: 0.03},
    "false-not-found": {Distortion.HOLED: 0.03},
}
_VIEWS: Mapping[str, Mapping[Distortion, float]] = {
    "torn-view": {Distortion.TORN: 0.1},
    "pod-holes": {Distortion.PODS_HOLED: 0.1},
}
"""Of the cluster alone."""
_METRICS: Mapping[str, Mapping[Distortion, float]] = {
    "metrics-gone": {Distortion.GONE: 0.1},
    "metrics-absurd": {Distortion.ABSURD: 0.05, Distortion.STALE: 0.05},
}
_OF_SEVERAL = ("stall", "nested-stall")
OF_CALLS = tuple(
    name for name in (*_STRIKES, *_LISTS, *_VIEWS, *_METRICS, "store-failover") if name not in _OF_SEVERAL
)
"""Faults that lie in the calls of one runner alone; `plan_for` knows them."""
_READS = ("cluster.read", "cloud.list_instances")
OUTAGE_CHANCE = 0.002


def check_names(names: Collection[str]) -> None:
    for name in names:
        if name not in FAULTS:
            raise ConfigError(f"unknown fault {name!r}; choose from {', '.join(FAULTS)}")


def plan_for(names: Collection[str], seed: int) -> RandomPlan:
    """The plan of one runner; runners of one simulation get different seeds."""
    strikes = {strike: chance for name in names for strike, chance in _STRIKES.get(name, {}).items()}
    lists = {kind: chance for name in names for kind, chance in _LISTS.get(name, {}).items()}
    distortions: dict[str, dict[Distortion, float]] = {verb: lists for verb in _READS if lists}
    views = {kind: chance for name in names for kind, chance in _VIEWS.get(name, {}).items()}
    if views:
        distortions["cluster.read"] = {**lists, **views}
    metrics = {kind: chance for name in names for kind, chance in _METRICS.get(name, {}).items()}
    if metrics:
        distortions["metrics.read_cpu"] = metrics
    plan = RandomPlan(seed, strikes, distortions)
    plan.outages = OUTAGE_CHANCE if "store-failover" in names else 0.0
    return plan


_RULES: Mapping[str, Mapping[str, Any]] = {
    "late-bind": {"late_bind_seconds": 3.0},
    "slow-to-appear": {"invisible_seconds": 60.0},
    "unlisted": {"listed_seconds": 0.0},
    "names-taken-over": {"names_from_address": True, "names_taken_over": True},
    "never-joins": {"never_join": 0.2},
    "late-joins": {"late_join": 0.5},
    "slow-detach": {"detach": Span(30, 200)},
    "duplicate-notices": {"duplicate_notices": 0.7},
    "late-notices": {"notice_delay": Span(0, 100), "rebalance_chance": 0.5},
}


def spoil(world: World, names: Collection[str]) -> None:
    """Faults that lie in the world and not in a runner's calls."""
    for name in names:
        world.set_rules(replace(world.rules, **_RULES.get(name, {})))


def mend(world: World, names: Collection[str]) -> None:
    """Take back what `spoil` did."""
    plain = Rules()
    for name in names:
        changes = {field: getattr(plain, field) for field in _RULES.get(name, {})}
        world.set_rules(replace(world.rules, **changes))
