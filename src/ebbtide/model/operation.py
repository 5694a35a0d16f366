"""Work that spans ticks: launching nodes, removing nodes, moving pods, answering a spot notice.

An operation is a plain value kept in the record. `ebbtide.core.operations` says how each moves on.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from ebbtide.model.pool import RemovalReason
from ebbtide.model.snapshot import Market


class SlotState(StrEnum):
    RESERVED = "RESERVED"
    LAUNCHING = "LAUNCHING"
    LAUNCHED = "LAUNCHED"
    JOINED = "JOINED"
    READY = "READY"
    RECLAIMING = "RECLAIMING"
    TERMINATING = "TERMINATING"
    RECLAIMED = "RECLAIMED"
    FAILED = "FAILED"


class SlotCause(StrEnum):
    """Why a launch does not continue, or came to nothing; `reason` says it with names and numbers."""

    NONE = ""
    MAXIMUM = "maximum"
    """It would exceed a maximum or a limit of the cluster or its pool."""
    NO_POOL = "no_pool"
    NO_ANSWER = "no_answer"
    NO_CAPACITY = "no_capacity"
    REFUSED = "refused"
    WENT_AWAY = "went_away"
    """Its instance ended before it was Ready."""
    STRANGER = "stranger"
    """A Ready node that matches no instance may be this one."""
    NO_NODE = "no_node"
    NOT_READY = "not_ready"
    STUCK = "stuck"
    """It could be neither reclaimed nor terminated."""
    ABORTED = "aborted"
    """Its operation was given up before it was asked for."""
    OTHER = "other"

    @classmethod
    def _missing_(cls, _: object) -> SlotCause:
        """One that only a newer version knows."""
        return cls.OTHER


@dataclass(frozen=True, slots=True)
class Slot:
    """One node to be launched. `key` makes the cloud's answer to a repeated launch the same."""

    key: str
    pool: str
    zone: str
    instance_type: str
    market: Market = Market.ON_DEMAND
    state: SlotState = SlotState.RESERVED
    since: int = 0
    instance_id: str = ""
    node_name: str = ""
    refused: tuple[str, ...] = ()
    """`zone/market/type` offers that answered "no capacity", in order."""
    reason: str = ""
    terminated: bool = False
    """Whether its termination is irrevocable: a call may be on its way, so it never becomes a worker."""
    missing_since: int = 0
    """While terminating: when the instance was first not listed by the cloud; 0 while it is."""
    shut_since: int = 0
    """While terminating: since when a node that joined too late has been cordoned and empty."""
    why: SlotCause = SlotCause.NONE
    unfit: tuple[str, ...] = ()
    """Those of `refused` that the cloud refuses for what they are: the type does not go with the image."""

    @property
    def settled(self) -> bool:
        return self.state in (SlotState.READY, SlotState.RECLAIMED, SlotState.FAILED)

    @property
    def expected(self) -> bool:
        """Is, or may become, a node that no worker stands for yet; also one that is to be handed over."""
        return not self.settled or (self.terminated and self.state is SlotState.FAILED)


class RemovalState(StrEnum):
    PLANNED = "PLANNED"
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"
    TERMINATING = "TERMINATING"
    SET_ASIDE = "SET_ASIDE"
    GONE = "GONE"
    RELEASING = "RELEASING"
    RELEASED = "RELEASED"


class RemovalCause(StrEnum):
    """Why a removal does not continue, or was given up; `reason` says it with names and numbers."""

    NONE = ""
    POD_BLOCKS = "pod_blocks"
    """A pod may not be evicted."""
    POD_WAITS = "pod_waits"
    """A pod may not be evicted now, or is ending."""
    POD_LEAVES = "pod_leaves"
    """A pod was asked to leave and has not left yet."""
    PUT_OFF = "put_off"
    """The API server put the eviction of a pod off."""
    VOLUME = "volume"
    """A volume is still attached."""
    NOT_CORDONED = "not_cordoned"
    TOO_LONG = "too_long"
    """It was not drained in time."""
    NO_NODE = "no_node"
    """Its node is not in the cluster."""
    CHECK = "check"
    """A check before the termination does not hold."""
    REFUSED = "refused"
    """The API server refused a taint, a cordon or an eviction."""
    CLOUD_REFUSES = "cloud_refuses"
    NOT_GONE = "not_gone"
    """Its instance did not go in time."""
    ABORTED = "aborted"
    """Its operation was given up."""
    LAPSED = "lapsed"
    """The interruption did not come."""
    OTHER = "other"

    @classmethod
    def _missing_(cls, _: object) -> RemovalCause:
        """One that only a newer version knows."""
        return cls.OTHER


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What prevents a removal: the cause, and the same for people."""

    cause: RemovalCause
    says: str
    about: str = ""
    """The pod, volume, check or cause of an abort."""


NO_OBSTACLE = Obstacle(RemovalCause.NONE, "")


@dataclass(frozen=True, slots=True)
class Removal:
    """One node to be removed, known by instance id, node name and node UID together."""

    instance_id: str
    node_name: str = ""
    node_uid: str = ""
    zone: str = ""
    pool: str = ""
    state: RemovalState = RemovalState.PLANNED
    since: int = 0
    drain_deadline: int = 0
    attempts: int = 0
    retry_at: int = 0
    missing_since: int = 0
    """When the instance was first not listed by the cloud; 0 while it is."""
    fence_token: int = 0
    fence_until: int = 0
    """The token under which effects on the node were last sent, and when the last may have started."""
    terminated: bool = False
    """Whether we decided that it goes; an instance may also be lost on the way."""
    blamed: bool = False
    """Released because the node itself would not drain: it rests before it is chosen again."""
    reason: str = ""
    refused_since: int = 0
    """When the cloud first refused to terminate it; 0 while it has not."""
    unhealthy: bool = False
    """It is repaired: while its node is silent, pods whose grace is over count as ended."""
    why: RemovalCause = RemovalCause.NONE
    about: str = ""
    """The pod, volume, check or cause of an abort that `reason` names."""

    @property
    def obstacle(self) -> Obstacle:
        """What was last in its way."""
        return Obstacle(self.why, self.reason, self.about)

    @property
    def settled(self) -> bool:
        """Whether its operation has nothing more to do. What is set aside is kept in the record after
        that."""
        return self.state in (RemovalState.GONE, RemovalState.RELEASED, RemovalState.SET_ASIDE)

    @property
    def irrevocable(self) -> bool:
        """Whether it can only roll forward until its instance is gone."""
        return self.state in (RemovalState.TERMINATING, RemovalState.SET_ASIDE)

    @property
    def started(self) -> bool:
        """Whether anything was done to the node: one that is gone was else gone already."""
        return self.attempts > 0 or self.terminated

    @property
    def dooms(self) -> bool:
        """Whether its node must not be counted on as capacity."""
        return self.state not in (RemovalState.RELEASING, RemovalState.RELEASED)


class AbortCause(StrEnum):
    """Why an operation was given up; `abort_reason` says it with names and numbers."""

    NONE = ""
    PAUSED = "paused"
    LOAD = "load"
    SPOT = "spot"
    PODS_WAITING = "pods_waiting"
    TOO_LONG = "too_long"
    NO_NODE = "no_node"
    """A node that was to be launched did not come."""
    STUCK = "stuck"
    """Nothing could be moved for too long."""
    CHANGED = "changed"
    """What is seen is no longer what was planned for."""
    NOT_READY = "not_ready"
    NO_ROOM = "no_room"
    NOT_IDLE = "not_idle"
    HEADROOM = "headroom"
    """Headroom would be lost with its nodes."""
    FIT_AGAIN = "fit_again"
    """A node that was to be replaced is well again, or what its pool launches."""
    NOT_ALLOWED = "not_allowed"
    """A node may not go after all: too few would be left, or the pods of one to be replaced have no place."""
    NODE_KEPT = "node_kept"
    """One of its nodes was given up, which ends it for the others."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Stop:
    """Why an operation must be given up: the cause, and the same for people."""

    cause: AbortCause
    says: str
    about: str = ""
    """The pod or node it is about, where there is one."""


@dataclass(frozen=True, slots=True)
class ScaleUp:
    id: str
    started_at: int
    requested: int
    slots: tuple[Slot, ...] = ()
    """Appended to while it is open, never removed or reordered."""
    reason: str = ""
    extended_at: int = 0
    """When slots were last appended; 0 where it was never extended."""

    @property
    def asked_at(self) -> int:
        """When nodes were last asked for."""
        return max(self.started_at, self.extended_at)

    @property
    def ready_at(self) -> int:
        """When its last node became Ready; 0 where none did yet."""
        return max((slot.since for slot in self.slots if slot.state is SlotState.READY), default=0)


@dataclass(frozen=True, slots=True)
class ScaleDown:
    id: str
    started_at: int
    removals: tuple[Removal, ...] = ()
    reason: str = ""
    abort_reason: str = ""
    """Set once, and never taken back: what is not yet TERMINATING is being released."""
    abort_cause: AbortCause = AbortCause.NONE
    only_empty: bool = False
    """Begun by consolidation: a node goes only as long as nothing is on it; no pod is evicted for it."""
    excused: bool = False
    """That nothing was removed is no failure: pods or load needed its nodes, or it had nothing to remove."""
    cause: RemovalReason = RemovalReason.IDLE
    """Why its nodes are to go; `only_empty` says that it is for consolidation."""
    replacements: tuple[Slot, ...] = ()
    """What is launched in their place. No node is touched before all of these are Ready."""

    @property
    def slots(self) -> tuple[Slot, ...]:
        """As the other operations call what they launch."""
        return self.replacements

    @property
    def replaced(self) -> bool:
        """Whether every node that is to take their place is Ready."""
        return all(slot.state is SlotState.READY for slot in self.slots)

    @property
    def removes_from(self) -> int:
        """Since when nodes could be removed: waiting for a replacement does not count as draining."""
        ready = (slot.since for slot in self.slots if slot.state is SlotState.READY)
        return max((self.started_at, *ready))


class MoveState(StrEnum):
    PLANNED = "PLANNED"
    EVICTING = "EVICTING"
    MOVED = "MOVED"
    """Its place is taken by a pod of the same controller that is ready elsewhere."""
    LEFT = "LEFT"
    """Not moved, and no longer to be moved."""


@dataclass(frozen=True, slots=True)
class Move:
    """One pod to be moved off a node. `to_node` is where room is reserved for it (the key of a slot for a
    node that is yet to come); where the scheduler puts it is the scheduler's choice."""

    pod_uid: str
    pod_name: str
    """`namespace/name`."""
    from_node: str
    to_node: str
    owner_uid: str = ""
    """The controller whose new pod takes its place."""
    owner_ready: int = 0
    """How many ready pods that controller had when this one was evicted."""
    state: MoveState = MoveState.PLANNED
    since: int = 0
    reason: str = ""

    @property
    def settled(self) -> bool:
        return self.state in (MoveState.MOVED, MoveState.LEFT)


class SourceState(StrEnum):
    PLANNED = "PLANNED"
    MARKED = "MARKED"
    EMPTIED = "EMPTIED"
    RELEASING = "RELEASING"
    RELEASED = "RELEASED"


@dataclass(frozen=True, slots=True)
class Source:
    """One node that is being emptied; removed later, by an operation of its own."""

    instance_id: str
    node_name: str
    node_uid: str
    zone: str = ""
    pool: str = ""
    state: SourceState = SourceState.PLANNED
    since: int = 0
    fence_token: int = 0
    fence_until: int = 0
    """As for a removal: the token of the last effects on the node, and when the last may have started."""
    reason: str = ""

    @property
    def settled(self) -> bool:
        return self.state in (SourceState.EMPTIED, SourceState.RELEASED)


@dataclass(frozen=True, slots=True)
class Consolidate:
    """Nodes emptied onto others, and onto cheaper ones that are launched first."""

    id: str
    started_at: int
    slots: tuple[Slot, ...] = ()
    sources: tuple[Source, ...] = ()
    moves: tuple[Move, ...] = ()
    savings_per_hour: Decimal = Decimal(0)
    currency: str = ""
    reason: str = ""
    abort_reason: str = ""
    """Set once, and never taken back: nothing more is moved, and what is not empty is released."""
    abort_cause: AbortCause = AbortCause.NONE
    watched_since: int = 0
    """Since when it has been observed without a break: unobserved time counts against no pod."""


Removing = ScaleDown | Consolidate
Operation = ScaleUp | ScaleDown | Consolidate


class SpotKind(StrEnum):
    INTERRUPTION = "interruption"
    REBALANCE = "rebalance"


class SpotEnd(StrEnum):
    """How the answer to a spot notice ended."""

    OPEN = ""
    """It has not."""
    ANSWERED = "answered"
    """The instance is gone."""
    REMOVED_MEANWHILE = "removed-meanwhile"
    """Another operation removed it."""
    NODE_STAYS = "node-stays"
    SET_ASIDE = "set-aside"
    """The cloud refuses to terminate it; the removal is kept in the record."""
    NEVER_JOINED = "never-joined"
    NOT_LISTED = "not-listed"
    NO_REPLACEMENT = "no-replacement"
    LAPSED = "lapsed"


@dataclass(frozen=True, slots=True)
class Spot:
    """The answer to a spot notice. Its id is derived from the instance, so there is one of it."""

    id: str
    instance_id: str
    kind: SpotKind
    noticed_at: int
    deadline: int
    pool: str = ""
    instance_type: str = ""
    removal: Removal | None = None
    """None while another operation removes the node: it is then only hurried along."""
    slot: Slot | None = None
    replace: bool = True
    """Whether a node is to be launched in its place."""
    closing: SpotEnd = SpotEnd.OPEN
    """How it ended; set once nothing is left to do."""
    unclean_runs: int = 0


@dataclass(frozen=True, slots=True)
class SpotNotice:
    """What the cloud said: this instance will be (or had better be) gone by `deadline`."""

    instance_id: str
    kind: SpotKind
    noticed_at: int
    deadline: int


def spot_id(instance_id: str) -> str:
    return f"spot:{instance_id}"
