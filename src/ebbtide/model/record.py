"""The one durable record of a cluster: who may act, what is in progress, and since when.

Work has two lanes: at most one operation that adds nodes (`launching`) and at most one that takes them away
(`removing`). `scaling_in_progress` is derived from them, so it can never be true alone. `rev` grows with
every write and the lease token with every change of holder; both are conditions of every write.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Any

from ebbtide.model.operation import Operation, Removal, RemovalState, Removing, ScaleDown, ScaleUp, Spot
from ebbtide.model.pool import HeadroomSeen, RemovalReason

FORMAT_VERSION = 3
"""The newest format that is understood."""
LANES_FORMAT = 2
"""With both lanes open, or with what was set aside."""
PLAIN_FORMAT = 1
"""What a record is written in, unless it holds something that this format cannot say."""
CLUSTER_LEASE = "cluster"
LONGEST_LEASE_SECONDS = 900
"""No configuration may set a longer one: a lease that ends further away was taken by a wrong clock."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to act until `until`, fenced by a token that only grows."""

    name: str
    owner: str
    token: int
    until: int


def spot_lease_name(instance_id: str) -> str:
    return f"spot:{instance_id}"


@dataclass(frozen=True, slots=True)
class DrainBackoff:
    """A node that is left alone until a time, and why."""

    instance_id: str
    until: int
    reason: str


@dataclass(frozen=True, slots=True)
class DrainFailures:
    """How often in a row a node could not be drained. Forgotten when it has not failed for long enough."""

    instance_id: str
    times: int
    until: int
    """Until when nothing voluntary chooses the node again; 0 when that is over."""
    forget_at: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CapacityBackoff:
    """A `zone/market/type` that answered "no capacity": until then it is asked for last."""

    offer: str
    until: int


@dataclass(frozen=True, slots=True)
class RefusedOffer:
    """A `zone/market/type` that the cloud refuses for what it is: not asked for until then, unless its pool
    is launched with another configuration by now. Forgotten when it was not refused again for long enough."""

    offer: str
    pool: str
    launch_hash: str
    times: int
    until: int
    forget_at: int


@dataclass(frozen=True, slots=True)
class Missing:
    """Since when an orphan (an instance without node, or a node without instance) has been seen."""

    id: str
    since: int
    gone: bool = False
    """Of a node: the cloud says, or has said for long enough by not listing it, that its instance is gone. It
    counts neither against the maximum nor as sick."""


@dataclass(frozen=True, slots=True)
class Emptied:
    """Since when a worker has been seen without a pod that counts (mirror, DaemonSet and finished ones
    do not): the LastContainerRemovedAt of the policy, for as long as it was looked at."""

    node_uid: str
    since: int


@dataclass(frozen=True, slots=True)
class Unwell:
    """Since when a worker has been seen with a condition that makes it unwell (`Ready=False` while it is not
    Ready), without a break."""

    node_uid: str
    condition: str
    since: int


@dataclass(frozen=True, slots=True)
class UnfitNode:
    """A worker that is unwell, expired or drifted, and why, as the last tick saw it."""

    node_name: str
    reason: RemovalReason
    says: str


@dataclass(frozen=True, slots=True)
class EmptiedNode:
    """A node that consolidation has emptied and that is removed once it was idle long enough; it keeps the
    mark of that operation until then, and is forgotten when pods come back or the time is over."""

    node_name: str
    node_uid: str
    instance_id: str
    operation_id: str
    until: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A removal that cannot be taken back and that the cloud refuses: set aside, so others continue. Its node
    stays cordoned by the operation that began it, and it is tried again at `retry_at`."""

    operation_id: str
    removal: Removal
    retry_at: int


@dataclass(frozen=True, slots=True)
class Counted:
    """How many nodes of a pool, or of all, where no pool is named."""

    pool: str
    nodes: int


@dataclass(frozen=True, slots=True)
class DemandNote:
    """The most that pods requested together in the part of a time that began at `at`."""

    at: int
    cpu_milli: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Saving:
    """What the last consolidation promised to save an hour, and what was true when it began: the cost of all
    instances, and what pods requested. Kept until it is known whether it saved that."""

    begun_at: int
    promised: Decimal
    cost_before: Decimal
    currency: str
    cpu_milli: int
    memory_mib: int
    fruitless: int
    """How many were fruitless in a row, this one among them: what counts again if nothing is saved."""


@dataclass(frozen=True)
class Record:
    """Without slots, for `changed`."""

    cluster: str = "cluster"
    rev: int = 0
    lock_owner: str = ""
    lock_until: int = 0
    lock_token: int = 0

    last_scale_at: int = 0
    pending_since: int = 0
    idle_since: int = 0
    short_since: int = 0
    """Since when fewer workers than the minimum, of the cluster or of a pool, are ready or on their way."""
    worker_count: int = 0
    pod_count: int = 0
    """Running pods at the last believable look."""
    shrunk_since: int = 0
    """Since when the cluster has looked implausibly smaller than `worker_count` and `pod_count` say."""
    counted: tuple[Counted, ...] = ()
    """How many nodes there were or were expected at the last look."""
    counted_before: tuple[Counted, ...] = ()
    """The same at the look before: what no list shows for one look still counts against the maximum."""
    ticked_at: int = 0
    headroom: tuple[HeadroomSeen, ...] = ()
    """What was wanted and what was there at the last look, to be shown; nothing depends on it."""

    launching: ScaleUp | None = None
    """The operation that adds nodes. It can be extended while it is open."""
    removing: Removing | None = None
    """The operation that takes nodes away."""
    spots: tuple[Spot, ...] = ()
    refused: tuple[Refused, ...] = ()
    launching_aside: ScaleUp | None = None
    removing_aside: Removing | None = None
    """Operations that kept crashing their runner; they block removals until a person resumes."""
    unclean_runs: int = 0
    """How often in a row a runner died in the launching operation."""
    unclean_removal_runs: int = 0
    """The same for the removing one."""

    launch_failures: int = 0
    launch_backoff_until: int = 0
    launch_backoff_offers: tuple[str, ...] = ()
    """What the back-off is about: offers that had no capacity, and names of pools whose launches failed
    otherwise; none: it is about every launch."""
    removal_failures: int = 0
    removal_backoff_until: int = 0
    rests: tuple[DrainBackoff, ...] = ()
    drain_failures: tuple[DrainFailures, ...] = ()
    offer_rests: tuple[CapacityBackoff, ...] = ()
    refused_offers: tuple[RefusedOffer, ...] = ()
    orphans: tuple[Missing, ...] = ()
    emptied: tuple[Emptied, ...] = ()
    """Workers that are empty now, by node UID."""

    underused: tuple[Emptied, ...] = ()
    """Workers that are underused now, by node UID; only where nodes are judged one by one."""

    unwell: tuple[Unwell, ...] = ()
    """Workers that are unwell now; only where repair is on."""
    unfit: tuple[UnfitNode, ...] = ()
    """What is to be replaced, the first few of it. Nothing depends on it."""
    demand: tuple[DemandNote, ...] = ()
    """What was asked for over `settled_sec`, the oldest first."""

    last_consolidation_at: int = 0
    """When the last consolidation began, however it ended: its cooldown counts from then."""
    consolidations_in_vain: int = 0
    """How many were begun since one that reached its end; counted as they begin, so a crash can only
    make it wait longer."""
    consolidation_owes: int = 0
    """How many nodes must still go for the last consolidation not to count as fruitless."""
    saving: Saving | None = None
    evictions: tuple[int, ...] = ()
    """When consolidation evicted pods in the last hour; each is written before it is done."""
    leaving: tuple[EmptiedNode, ...] = ()

    paused: bool = False
    pause_reason: str = ""

    decision_key: str = ""
    """What the last logged decision said, to tell a repetition from news."""
    decision_logged_at: int = 0
    last_said: str = ""
    """What the last tick said, to show between ticks. Shortened; nothing depends on it."""
    contradictions: tuple[str, ...] = ()
    """What in the stored record contradicted itself and was read as it must be meant; never written."""

    @property
    def scaling_in_progress(self) -> bool:
        return self.launching is not None or self.removing is not None

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What is open in both lanes."""
        if self.launching is None and self.removing is None:
            return ()
        return tuple(one for one in (self.launching, self.removing) if one is not None)

    @property
    def operation(self) -> Operation | None:
        """The open operation, for views of only one: the removing one if both lanes are open."""
        return self.removing if self.removing is not None else self.launching

    @property
    def all_set_aside(self) -> tuple[Operation, ...]:
        if self.removing_aside is None and self.launching_aside is None:
            return ()
        return tuple(one for one in (self.removing_aside, self.launching_aside) if one is not None)

    @property
    def set_aside(self) -> Operation | None:
        """The first that was set aside, for views of only one."""
        return next(iter(self.all_set_aside), None)

    @property
    def format_version(self) -> int:
        """A version that knows only one operation at a time must leave a record with more alone: it would
        lose it."""
        both = self.launching is not None and self.removing is not None
        aside = len(self.all_set_aside) > 1
        downs = [one for one in (*self.operations, *self.all_set_aside) if isinstance(one, ScaleDown)]
        if any(down.slots for down in downs):
            # Crash table: older-version-replacement. A version that does not know replacements would drain
            # the node before its replacement is there.
            return FORMAT_VERSION
        removals = [removal for one in downs for removal in one.removals]
        removals += [spot.removal for spot in self.spots if spot.removal is not None]
        halted = any(removal.state is RemovalState.SET_ASIDE for removal in removals)
        # Crash table: older-version-lanes. An older version would not see the second lane.
        return LANES_FORMAT if both or aside or halted or self.refused else PLAIN_FORMAT

    @property
    def skipped(self) -> tuple[DrainBackoff, ...]:
        """What nothing voluntary chooses now: each once, with the later of its times."""
        found = {rest.instance_id: rest for rest in self.rests}
        for one in self.drain_failures:
            known = found.get(one.instance_id)
            if one.until > (known.until if known else 0):
                found[one.instance_id] = DrainBackoff(one.instance_id, one.until, one.reason)
        return tuple(found.values())

    @property
    def gone_nodes(self) -> frozenset[str]:
        """UIDs of Node objects that outlived their instance."""
        return frozenset(orphan.id for orphan in self.orphans if orphan.gone)

    def emptied_since(self, node_uid: str) -> int | None:
        """Since when the node has been empty; none where it is not, or was not seen to be."""
        return next((node.since for node in self.emptied if node.node_uid == node_uid), None)

    def spot_for(self, instance_id: str) -> Spot | None:
        return next((spot for spot in self.spots if spot.instance_id == instance_id), None)


_NAMES = frozenset(field.name for field in fields(Record))


def changed(record: Record, **values: Any) -> Record:
    """As `dataclasses.replace`, which asks for each of fifty fields: every tick changes its record several
    times."""
    if unknown := values.keys() - _NAMES:
        raise TypeError(f"a record has no {', '.join(sorted(unknown))}")
    after = object.__new__(Record)
    vars(after).update(vars(record), **values)
    return after


def in_lane(record: Record, operation: Operation) -> Record:
    """The record with this operation in its lane."""
    if isinstance(operation, ScaleUp):
        return replace(record, launching=operation)
    return replace(record, removing=operation)


def closed(record: Record, operation: Operation) -> Record:
    """The record without the operation of this kind: its lane is free."""
    if isinstance(operation, ScaleUp):
        return replace(record, launching=None, unclean_runs=0)
    return replace(record, removing=None, unclean_removal_runs=0)
