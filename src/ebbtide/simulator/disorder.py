"""Faults by name, as `ebbtide simulate --faults` takes them, and what each means for a simulation."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ebbtide.errors import ConfigError
from ebbtide.simulator.plans import Distortion, RandomPlan, Strike
from ebbtide.simulator.world import World

FAULTS: Mapping[str, str] = {
    "crash": "the runner dies before or after a call",
    "crash-before": "the runner dies before a call",
    "crash-after": "the runner dies after a call that was carried out",
    "lost-reply": "a call is carried out and its reply lost",
    "failed-call": "a call fails and is not carried out",
    "throttling": "a call is refused for now",
    "late-bind": "a pod is bound to a node just after its cordon",
    "stale-list": "the cluster or the cloud shows an old list",
    "empty-list": "the cluster or the cloud shows nothing at all",
    "metrics-gone": "the CPU of the nodes is unknown for a while",
    "clock-jump": "the runner's clock jumps for a tick",
    "second-runner": "another runner ticks at the same time, with a clock of its own",
    "stall": "the runner freezes before a call until its lease has run out, and another takes over",
}

_STRIKES: Mapping[str, Mapping[Strike, float]] = {
    "crash": {Strike.CRASH_BEFORE: 0.01, Strike.CRASH_AFTER: 0.01},
    "crash-before": {Strike.CRASH_BEFORE: 0.02},
    "crash-after": {Strike.CRASH_AFTER: 0.02},
    "lost-reply": {Strike.LOST_REPLY: 0.02},
    "failed-call": {Strike.FAILED: 0.02},
    "throttling": {Strike.THROTTLED: 0.02},
    "stall": {Strike.STALL: 0.005},
}
_READS = ("cluster.read", "cloud.list_instances")


def check_names(names: Collection[str]) -> None:
    for name in names:
        if name not in FAULTS:
            raise ConfigError(f"there is no fault {name!r}; there are {', '.join(FAULTS)}")


def plan_for(names: Collection[str], seed: int) -> RandomPlan:
    """The plan of one runner; runners of one simulation get different seeds."""
    strikes = {strike: chance for name in names for strike, chance in _STRIKES.get(name, {}).items()}
    lists: dict[Distortion, float] = {}
    if "stale-list" in names:
        lists[Distortion.STALE] = 0.05
    if "empty-list" in names:
        lists[Distortion.EMPTY] = 0.03
    distortions: dict[str, dict[Distortion, float]] = {verb: lists for verb in _READS if lists}
    if "metrics-gone" in names:
        distortions["metrics.read_cpu"] = {Distortion.GONE: 0.1}
    return RandomPlan(seed, strikes, distortions)


def spoil(world: World, names: Collection[str]) -> None:
    """Faults that lie in the world and not in a runner's calls."""
    if "late-bind" in names:
        world.set_late_bind(3.0)
