"""Headroom: room that is kept for the next pods. docs/how-to/headroom-and-pools.md, "Headroom"."""

from __future__ import annotations

from collections.abc import Collection

from ebbtide.model.pool import Headroom
from ebbtide.model.snapshot import Node
from tests.oracle import nodes, pace, pools
from tests.oracle.answers import Ruling, either, no, rule, yes
from tests.oracle.facts import Moment
from tests.oracle.load import pending

FINISHED = ("Succeeded", "Failed")


@rule("headroom: 'room on nodes of every pool without taints counts'", "yes", "no")
def counts_for(moment: Moment, headroom: Headroom, node: Node) -> Ruling:
    """ "With `pool`, only nodes of that pool count [...]. `zones` limits it to those zones [...]. Nodes
    outside the pools never count"; a pool that sleeps is not kept awake by it."""
    if nodes.counts(node).answer == "no" or node.name in moment.going:
        return no("it takes no pods, or goes")
    if headroom.pool and node.pool != headroom.pool:
        return no("another pool")
    if headroom.zones and node.zone not in headroom.zones:
        return no("another zone")
    if not headroom.pool and node.taints:
        return no("it has taints")
    asleep = {pool.name for pool in moment.settings.pools if pool.may_be_empty}
    return no("its pool sleeps") if node.pool in asleep else yes("its room counts")


def room(moment: Moment, headroom: Headroom, without: Collection[str] = ()) -> int:
    """For how many pods of it there is room, at most as many as are wanted."""
    found = 0
    for node in moment.nodes:
        if node.name in without or counts_for(moment, headroom, node).answer == "no":
            continue
        here = [pod for pod in moment.on(node.name) if pod.phase.value not in FINISHED]
        cpu = node.allocatable.cpu_milli - sum(pod.requests.cpu_milli for pod in here)
        memory = node.allocatable.memory_mib - sum(pod.requests.memory_mib for pod in here)
        fits = min(cpu // headroom.cpu_milli, memory // headroom.memory_mib, node.max_pods - len(here))
        found += max(0, fits)
    return min(found, headroom.count)


def _plain(moment: Moment) -> str:
    """Why the room is not known from the nodes alone; empty where it is."""
    if not moment.whole:
        return "not everything was seen"
    if len(moment.settings.headroom) != 1:
        return "several share the room"
    return "pending pods come first" if pending(moment) else ""


@rule("headroom: 'Launches as soon as room is missing'", "yes", "no", "either")
def asked_for(moment: Moment) -> Ruling:
    if not moment.settings.headroom:
        return no("none is configured")
    unclear = _plain(moment)
    if unclear or moment.coming:
        return either(unclear or "a node on its way may hold it")
    (headroom,) = moment.settings.headroom
    there = room(moment, headroom)
    if headroom.pool and any(p.may_be_empty for p in moment.settings.pools if p.name == headroom.pool):
        return no("its pool sleeps")
    return no("there is enough") if there >= headroom.count else yes(f"{there} of {headroom.count}")


@rule("headroom: 'Launches as soon as room is missing'", "yes", "either")
def must_launch(moment: Moment) -> Ruling:
    """ "`pending_up_sec` does not apply, `cooldown_up_sec` does"; it is "filled as far as the maximum
    allows"."""
    clear = moment.whole and not moment.launching and not moment.notices and not moment.held
    clear = clear and moment.launch_backoff_until <= moment.now
    if not clear or asked_for(moment).answer != "yes" or pace.may_launch_again(moment).answer != "yes":
        return either("something else may come first")
    (headroom,) = moment.settings.headroom
    for pool in moment.settings.pools:
        wrong_place = headroom.pool not in ("", pool.name) or pool.may_be_empty
        wrong_place |= bool(headroom.zones) and not set(headroom.zones) & set(pool.zones)
        if wrong_place or (pool.taints and not headroom.pool):
            continue
        full = nodes.within_maximum(moment, [pool.name]).answer == "no"
        for kind in pool.types:
            holds = kind.allocatable.cpu_milli >= headroom.cpu_milli
            holds = holds and kind.allocatable.memory_mib >= headroom.memory_mib
            if holds and not full and pools.fits_limits(moment, pool, [kind.name]).answer == "yes":
                return yes("a new node would hold some of it")
    return either("no new node is allowed, or none would hold it")


@rule("headroom: 'A node whose removal would leave less headroom stays'", "yes", "no", "either")
def may_remove(moment: Moment, removing: Collection[str]) -> Ruling:
    unclear = _plain(moment)
    if unclear or not moment.settings.headroom:
        return either(unclear or "none is configured")
    (headroom,) = moment.settings.headroom
    before, after = room(moment, headroom), room(moment, headroom, removing)
    if after < before:
        return no(f"room for {after} of {headroom.count} would be left, there is room for {before}")
    return yes("no less is left")
