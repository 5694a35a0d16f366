"""Whether a node may or must be launched, and where. "Defaults", rows 27, 29, 31 and 41."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ebbtide.model.operation import Slot
from ebbtide.model.pod import ANYWHERE, Pod
from ebbtide.model.pool import Pool
from ebbtide.model.snapshot import Market
from tests.oracle import nodes, pace, runs
from tests.oracle.answers import Ruling, either, no, rule, strictest, yes
from tests.oracle.facts import Moment
from tests.oracle.load import pending


@rule("defaults: 'Scale up when'", "yes", "no", "either")
def asked_for(moment: Moment) -> Ruling:
    """ "Scale up when CPU > CPU_UP or pods have been pending for PENDING_UP_SEC"."""
    settings = moment.settings
    if moment.cpu is not None and moment.cpu > settings.cpu_up:
        return yes("CPU")
    if pending(moment):
        if moment.pending_since and moment.now - moment.pending_since >= settings.pending_up_seconds:
            return yes("pods are pending")
        if any(pool.min_workers for pool in settings.pools):
            return either("a wake may ask for a node at once")
    left = nodes.staying(moment, ())
    short = len(left) < settings.min_workers
    short |= any(sum(n.pool == pool.name for n in left) < pool.min_workers for pool in settings.pools)
    return either("fewer than the minimum count") if short else no("nothing asks for a node")


@rule("defaults, rows 10, 29", "yes", "no", "either")
def may_launch(moment: Moment, pools: Sequence[str]) -> Ruling:
    """Something asks for it, the cooldown is over, and it stays within the maximum."""
    if not moment.whole:
        return either("not everything was seen")
    return strictest((asked_for(moment), pace.may_launch_again(moment), nodes.within_maximum(moment, pools)))


@rule("defaults, row 31", "yes", "either")
def must_launch(moment: Moment) -> Ruling:
    """What is asked for is launched, while below max; where the cluster already has room, or where nothing
    that can be launched helps, the documents leave it open."""
    settings = moment.settings
    clear = moment.whole and not moment.launching and not moment.coming and not moment.notices
    clear = clear and not moment.held and (bool(moment.launch_backoff_about) or not _backs_off(moment))
    if not clear or asked_for(moment).answer != "yes" or pace.may_launch_again(moment).answer != "yes":
        return either("something else may come first")
    open_pools = [
        pool
        for pool in settings.pools
        if nodes.within_maximum(moment, [pool.name]).answer == "yes" and not _waits(moment, pool)
    ]
    if not open_pools:
        return either("at the maximum")
    if moment.cpu is not None and moment.cpu > settings.cpu_up:
        return yes("CPU is above cpu_up")
    waiting = [pod for pod in moment.pods if pod.full_name in set(pending(moment))]
    stuck = [pod for pod in waiting if not _has_room(moment, pod)]
    helped = [pod for pod in stuck if _plain(pod) and _any_type_takes(moment, pod, len(open_pools))]
    return yes("a pod is pending that a new node would take") if helped else either("no new node helps")


def _backs_off(moment: Moment) -> bool:
    return moment.launch_backoff_until > moment.now


def _waits(moment: Moment, pool: Pool) -> bool:
    """Whether the back-off may be about this pool: what failed elsewhere is no reason to wait."""
    if not _backs_off(moment):
        return False
    types = {about.rpartition("/")[2] for about in moment.launch_backoff_about if "/" in about}
    return pool.name in moment.launch_backoff_about or any(kind.name in types for kind in pool.types)


@rule("row 41", "yes", "either")
def woken_at_once(moment: Moment, pool: str) -> Ruling:
    """ "ready means a Ready node of that pool, launched at once": no cooldown and no `PENDING_UP_SEC`."""
    clear = moment.whole and not moment.launching and not moment.coming and not moment.notices
    clear = clear and not moment.held and moment.launch_backoff_until <= moment.now
    if not clear or runs.pool_is_awake(pool, moment.nodes).answer != "no":
        return either("it has a node, or something else may come first")
    room = nodes.within_maximum(moment, [pool])
    return yes("it is woken and has no node") if room.demands else either("at the maximum")


def _has_room(moment: Moment, pod: Pod) -> bool:
    """Whether any node at all, ours or not, might take it."""
    for node in moment.nodes:
        here = [p for p in moment.on(node.name) if p.phase.value not in ("Succeeded", "Failed")]
        cpu = node.allocatable.cpu_milli - sum(p.requests.cpu_milli for p in here)
        memory = node.allocatable.memory_mib - sum(p.requests.memory_mib for p in here)
        if pod.requests.cpu_milli <= cpu and pod.requests.memory_mib <= memory and len(here) < node.max_pods:
            return True
    return False


def _plain(pod: Pod) -> bool:
    return pod.scheduling == ANYWHERE and not pod.requests.extended and pod.requests.cpu_milli > 0


def _any_type_takes(moment: Moment, pod: Pod, pools: int) -> bool:
    """With room to spare for what comes with every node."""
    types = [kind for pool in moment.settings.pools if not pool.taints for kind in pool.types]
    return pools == len(moment.settings.pools) and any(
        pod.requests.cpu_milli * 10 <= kind.allocatable.cpu_milli * 9
        and pod.requests.memory_mib * 10 <= kind.allocatable.memory_mib * 9
        for kind in types
    )


@rule("defaults: 'Launch into the AZ with the fewest workers'", "yes", "no", "either")
def right_zone(moment: Moment, slot: Slot, earlier: Sequence[Slot]) -> Ruling:
    """Whether "workers" means those of the pool or of the cluster, and only those that count, is not said: a
    zone is wrong when it has the fewest by no reading."""
    pool = next(one for one in moment.settings.pools if one.name == slot.pool)
    if any(pod.scheduling != ANYWHERE for pod in moment.pods) or len(pool.zones) < 2:
        return either("pods may ask for a zone" if len(pool.zones) > 1 else "there is one zone")
    workers = [node for node in moment.nodes if nodes.is_worker(node).answer == "yes"]
    coming = [*((one.zone, one.pool) for one in moment.coming), *((one.zone, one.pool) for one in earlier)]
    fewest = []
    for of_pool in (True, False):
        for which in (workers, nodes.staying(moment, ())):
            for more in (coming, []):
                places = [*((node.zone, node.pool) for node in which), *more]
                there = Counter(zone for zone, name in places if not of_pool or name == slot.pool)
                fewest.append(there[slot.zone] == min(there[zone] for zone in pool.zones))
    if not any(fewest):
        return no(f"zone {slot.zone} does not have the fewest workers")
    return yes("the zone with the fewest") if all(fewest) else either("it depends on which workers count")


@rule("defaults: 'spot first where asked for'", "yes", "no")
def right_market(moment: Moment, slot: Slot, no_capacity_before: bool) -> Ruling:
    """ "spot first where asked for, on-demand only after a definite capacity answer"."""
    pool = next(one for one in moment.settings.pools if one.name == slot.pool)
    if slot.market is pool.market:
        return yes("as the pool asks for")
    fell_back = slot.market is Market.ON_DEMAND and (no_capacity_before or bool(slot.refused))
    return yes("no capacity in the other") if fell_back else no(f"{slot.market} in a pool of {pool.market}")
