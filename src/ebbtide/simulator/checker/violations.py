"""What must never happen, by kind. Kind and subject of a violation are data; its sentence is for people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class ViolationKind(StrEnum):
    TOKEN_WENT_BACK = "token-went-back"
    REVISION_WENT_BACK = "revision-went-back"
    OLD_TOKEN_WROTE = "old-token-wrote"
    TWO_IN_A_LANE = "two-in-a-lane"
    SLOTS_LOST = "slots-lost"
    SLOT_CHANGED = "slot-changed"
    FEWER_REQUESTED = "fewer-requested"
    NEXT_TO_A_LAUNCH = "next-to-a-launch"
    """Nodes were chosen to be removed while others are launched."""
    NOT_WRITTEN_FIRST = "not-written-first"
    NO_INTENT = "no-intent"
    """An instance was terminated that no record says is to go."""
    TAKEN_BACK = "taken-back"
    """A termination was taken back after it was written."""
    TWO_OWNERS = "two-owners"
    NOTICE_FORGOTTEN = "notice-forgotten"
    CLOUD_TAKES_IT = "cloud-takes-it"
    """What the cloud takes was to be terminated."""
    BELOW_MINIMUM = "below-minimum"
    ABOVE_MAXIMUM = "above-maximum"
    ZONE_EMPTIED = "zone-emptied"
    BUDGET_EXCEEDED = "budget-exceeded"
    TWO_INSTANCES = "two-instances"
    """One slot has two."""
    TERMINATED_TWICE = "terminated-twice"
    NOT_OURS = "not-ours"
    POD_LOST = "pod-lost"
    """An instance was terminated with a pod on it."""
    VOLUME_LOST = "volume-lost"
    """An instance was terminated with a volume attached."""
    NOT_CORDONED = "not-cordoned"
    """A pod was evicted from a node that is not cordoned by us."""
    PROTECTED_POD = "protected-pod"
    """A pod was evicted that must stay."""
    DISRUPTION_BUDGET = "disruption-budget"
    AFTER_TERMINATION = "after-termination"
    """A node was touched after its termination was requested or written."""
    INSTANCE_RUNS = "instance-runs"
    """A Node object was deleted while its instance runs."""
    MARK_LEFT = "mark-left"
    NODE_LEFT = "node-left"
    INSTANCE_LEFT = "instance-left"
    TOO_MANY_MOVES = "too-many-moves"
    COOLDOWN = "cooldown"
    TOO_YOUNG = "too-young"
    NOT_IDLE = "not-idle"
    NO_PLACE = "no-place"
    """A pod that consolidation evicted has no node."""
    HEADROOM = "headroom"
    POOL_LIMITS = "pool-limits"
    WEIGHTS = "weights"
    TOUCHED_EARLY = "touched-early"
    """A node was touched before its replacement was Ready."""
    NOT_UNWELL = "not-unwell"
    NOT_EXPIRED = "not-expired"
    NOT_DRIFTED = "not-drifted"
    BRAKE = "brake"
    """A node was repaired while too many of its pool are silent."""
    USERS_WAIT = "users-wait"
    STATE_ASTRAY = "state-astray"
    """The state of a policy is missing, or is not what the cluster shows."""
    WAKE_FORGOTTEN = "wake-forgotten"
    INVARIANT = "invariant"
    """A state machine broke its own."""
    TICK_FAILED = "tick-failed"
    WITNESSED = "witnessed"
    """What another witness of the world reports."""


@dataclass(frozen=True, slots=True)
class Violation:
    kind: ViolationKind
    about: str
    """The node, pod, instance, operation or policy."""
    says: str
    at: float = 0.0
    """Seconds since the start."""

    def __str__(self) -> str:
        return f"at {self.at:.0f}: {self.says}"


Say = Callable[[ViolationKind, str, str], None]
"""Kind, subject and sentence."""
