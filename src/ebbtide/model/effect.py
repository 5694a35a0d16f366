"""What a state machine answers when it is advanced: its next state, the effects the shell should have on the
outside world, and how those went.

Every effect is safe to repeat. An outcome is `DONE`, or says what kind of failure it was: a definite
`REFUSED` or `NO_CAPACITY`, or `UNKNOWN` where the effect may or may not have happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from ebbtide.model.idle import Remembered
from ebbtide.model.operation import Slot
from ebbtide.model.pod import Workload
from ebbtide.model.policy import Policy
from ebbtide.model.snapshot import Instance


@dataclass(frozen=True, slots=True)
class SoftTaint:
    """Sign the node and ask the scheduler to prefer others: the step before a cordon."""

    node_name: str
    node_uid: str
    operation_id: str


@dataclass(frozen=True, slots=True)
class Cordon:
    node_name: str
    node_uid: str
    operation_id: str


@dataclass(frozen=True, slots=True)
class Uncordon:
    """Lift soft taint and cordon. `signed_token` is the one seen on the node: tokens of different leases
    cannot be compared, so what this operation signed under another lease is lifted under the token it was
    signed with."""

    node_name: str
    node_uid: str
    operation_id: str
    signed_token: int = 0


@dataclass(frozen=True, slots=True)
class Evict:
    namespace: str
    name: str
    uid: str
    node_name: str
    grace_seconds: int


@dataclass(frozen=True, slots=True)
class Terminate:
    """`node_name` is empty for an instance that has no node."""

    instance_id: str
    node_name: str
    node_uid: str
    operation_id: str
    lost_before: int = 0
    """Where its node is silent: a pod whose grace was over by then counts as ended. 0 where none does."""


@dataclass(frozen=True, slots=True)
class DeleteNode:
    node_name: str
    node_uid: str


@dataclass(frozen=True, slots=True)
class Launch:
    slot: Slot
    operation_id: str


Effect = SoftTaint | Cordon | Uncordon | Evict | Terminate | DeleteNode | Launch


@dataclass(frozen=True, slots=True)
class ToZero:
    """Take over the Services of a policy, then scale its workloads to zero, each as it was seen. It ends
    with the first call that fails."""

    policy: Policy
    workloads: tuple[Workload, ...]


@dataclass(frozen=True, slots=True)
class Restore:
    """Bring a workload up that is at zero. What is up is left at what it has, unless `exact`; it is scaled in
    any case, since that changes its version and so refuses a call to zero that is still on its way."""

    policy: Policy
    target: Remembered
    exact: bool = False


@dataclass(frozen=True, slots=True)
class SetReplicas:
    policy: Policy
    workload: Workload
    """As it was seen; where it changed since, it is left alone."""
    replicas: int
    why: str


WorkloadEffect = ToZero | Restore | SetReplicas


class OutcomeKind(StrEnum):
    DONE = "done"
    UNKNOWN = "unknown"
    """No definite answer: it may have happened."""
    LATER = "later"
    """Definitely not done now; worth repeating (throttled, disruption budget used up)."""
    NO_CAPACITY = "no-capacity"
    REFUSED = "refused"
    """Definitely not done, and repeating it as it is will not help."""
    CHANGED = "changed"
    """Definitely not done: what it was meant for is no longer as it was seen."""
    SKIPPED = "skipped"
    """Not tried: no time left in the tick or in the lease."""


@dataclass(frozen=True, slots=True)
class Outcome:
    effect: Effect
    kind: OutcomeKind
    detail: str = ""
    instance: Instance | None = None
    """The instance that a launch made or found."""
    unfit: bool = False
    """Of a launch without capacity: the cloud refuses the offer itself, and will refuse it again."""


@dataclass(frozen=True, slots=True)
class WorkloadOutcome:
    effect: WorkloadEffect
    kind: OutcomeKind
    detail: str = ""
    previous: int = 0
    """Replicas before a restore."""


State = TypeVar("State")
Effects = TypeVar("Effects")


@dataclass(frozen=True, slots=True)
class Step(Generic[State, Effects]):
    state: State
    """To be written first."""
    effects: tuple[Effects, ...] = ()
    """To be performed after that; each is safe to repeat."""


class Breach(StrEnum):
    """What a step must never do."""

    STATE = "state"
    """It goes to a state that its table does not allow from where it is."""
    IDENTITY = "identity"
    """It is about another node, pod, launch or plan than before."""
    LOST = "lost"
    """A part of it is gone."""
    TAKEN_BACK = "taken_back"
    """What is set once was taken back: an abort, a termination, a wake, an interruption."""
    APPENDED = "appended"
    """A launch was added that is there already, or not at its beginning."""
    TOO_EARLY = "too_early"
    """A pod is moved before it may be."""


@dataclass(frozen=True, slots=True)
class Broken:
    cause: Breach
    about: str
    """The operation or the part of it that broke it."""
    says: str
