"""The interfaces to the outside. Adapters and the simulator implement them; one contract suite tests each.

Common to all: errors are those of `ebbtide.errors`. A call that raises `Unanswered` may have been
carried out, one that raises anything else was not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ebbtide.errors import EbbtideError
from ebbtide.model.decision import Decision
from ebbtide.model.effect import Cordon, DeleteNode, Evict, Launch, Outcome, SoftTaint, Uncordon
from ebbtide.model.idle import Days, IdleState, LedgerDay, Once
from ebbtide.model.log import Entries, Kinds, LogEntry
from ebbtide.model.operation import Operation, Spot, SpotNotice
from ebbtide.model.pod import Pod, Workload, WorkloadRef
from ebbtide.model.policy import (
    Declaration,
    Declarer,
    GatePort,
    Policy,
    Report,
    Service,
    ServiceRef,
    Takeover,
)
from ebbtide.model.record import Lease, Record
from ebbtide.model.snapshot import ClusterView, Instance, Node, NodeUse, Reading, Snapshot

PolicyPut = tuple[Policy, Entries]


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""

    def sleep(self, seconds: float) -> None: ...


class Store(Protocol):
    """The record of one cluster, its leases and its log. Reads are consistent."""

    def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
        """Take a lease that is free, run out, or already ours (then the token stays the same and only
        `until` moves). A change of holder raises the token. `LeaseLost` while another holds it, which
        is up to and including the second `until`. One that ends further away than any lease lasts is also
        over when this store has seen it unchanged for as long as the longest lasts."""

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        """Move `until` on. `LeaseLost` when the lease is no longer ours, or has run out."""

    def release(self, lease: Lease) -> None:
        """Give it back; does nothing when it is no longer ours."""

    def load(self) -> Record:
        """The record; a fresh one when nothing was ever written. `NewerRecord` when a newer version
        wrote it, `StoreUnusable` when it cannot be read."""

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        """Replace the record and append the entries, all or nothing. Conditions: `rev` is still that of
        `record` and no other operation than that of `record` is in progress (else `Conflict`), and the
        guard still holds and has not run out (else `LeaseLost`). Returns the record with its new
        `rev`. Lease fields are not changed by it."""

    def append(self, entries: Sequence[LogEntry]) -> None:
        """Append alone; an entry whose id is there already is left as it is."""

    def read_log(
        self, kinds: Kinds = (), subject: str = "", limit: int = 100, before: str = "", brief: bool = False
    ) -> Sequence[LogEntry]:
        """The newest entries first, by their ids; of all kinds and subjects where none is named, and only
        those whose ids come before `before` where that is given. In `brief` decisions come without
        their data, which is all that was seen."""

    def find_entry(self, entry_id: str) -> LogEntry | None: ...

    def prune_log(self, before: int) -> int:
        """Delete entries older than `before`, except those the ledger needs, and leases of instances that
        ended so long ago that none is still valid. Returns the number of entries deleted. Safe to interrupt,
        to repeat and to run twice at the same time."""

    def close(self) -> None: ...


class PolicyStore(Protocol):
    """Policies of one cluster, their states and their ledger. Reads are consistent. Leases are those of
    `Store` (the idle loop takes the one named `policies`); safety comes from the conditions alone.
    Numbers begin again when a policy is deleted and made again, so its id is not used twice. One write takes
    up to 50 log entries; more is a `ValueError`, and so is a day of another policy."""

    def list_policies(self, after: str = "", limit: int = 100) -> Sequence[Policy]:
        """By name, those whose name comes after `after`."""

    def find_policy(self, policy_id: str) -> Policy | None: ...

    def find_policy_named(self, name: str) -> Policy | None: ...

    def put_policy(
        self, policy: Policy, entries: Sequence[LogEntry] = (), state: IdleState | None = None
    ) -> Policy:
        """Create (`version` 0) or replace the one of this id and version; returned with its new version.
        `Conflict` when that is no longer its version, `NameTaken` when another has its name, `TargetTaken`
        when it is enabled and another that is enabled has one of its workloads, or its pool. A `state` is
        written with it, only while its `rev` is still that of the state (else `Conflict`). A new
        policy gets its state (rev 1, ACTIVE, last activity and stretch from `created_at`) in the same
        write. `Usage` for what no store could give back: an id that is no UUID in small letters, a name
        that is empty, too long or not printable, a number that is not finite."""

    def put_policies(self, puts: Sequence[PolicyPut]) -> Sequence[Policy | EbbtideError]:
        """Many at once, in any order, each with its entries and under its own conditions, as `put_policy`
        writes one. For each, in their order: the policy as written, or why it was not. Where the store
        fails half-way, the rest gets that error. One put for each policy."""

    def delete_policy(self, policy_id: str, version: int, entries: Sequence[LogEntry] = ()) -> None:
        """With its state; its ledger and log stay. `Conflict` as above; gone already is success, and then
        the entries are not appended."""

    def find_state(self, policy_id: str) -> IdleState | None: ...

    def list_states(self) -> Sequence[IdleState]:
        """Of all policies, in any order."""

    def write_state(
        self, state: IdleState, days: Days = (), entries: Entries = (), once: Once | None = None
    ) -> IdleState:
        """Replace the state, add each day's amounts to the row of its policy, date and currency, append
        the entries, use up the key: all or nothing, and only while `rev` is still that of `state` (else
        `Conflict`) and nobody used the key before (else `KeyUsed`).
        Returned with its new `rev`. A write whose reply was lost is recognised as our own."""

    def write_states(self, states: Sequence[IdleState]) -> Sequence[IdleState]:
        """Many at once, each under its own condition, without ledger or log; those that were written
        (with their new `rev`) are returned in their order, the others left as they were. Where the store
        fails half-way, what was written until then is returned. One state for each policy."""

    def list_days(self, policy_id: str = "", first: str = "", last: str = "") -> Sequence[LedgerDay]:
        """By date, then policy; of all policies and days where none is named, both ends included."""

    def replace_days(self, policy_id: str, days: Sequence[LedgerDay]) -> None:
        """All rows of one policy, by these: for a rebuild. What `write_state` adds between reading the log
        and this call is lost, so a rebuild holds the lease `policies`."""

    def keep_once(self, key: str, value: str, expires_at: int, now: int) -> str:
        """Remember the value under this key up to and including then, unless it has one already; the value
        that holds. Idempotency keys and webhook ids live here. Who must know that it was first puts
        something of its own into the value."""


class Workloads(Protocol):
    """Deployments and StatefulSets."""

    def read(self, ref: WorkloadRef) -> Workload:
        """`NotFound` where there is none."""

    def scale(self, seen: Workload, replicas: int, note: str) -> Workload:
        """Set the replicas and tell why (an Event), provided that nothing changed since it was `seen`
        (else `Conflict`). It always changes `version`, also where the replicas were these already: a caller
        that saw the workload earlier can then no longer scale it. `NotFound` as above."""

    def wait_ready(self, ref: WorkloadRef, until: float) -> Workload:
        """Return the moment a watch says that it is ready, or what was last seen at `until`. Many
        callers share one watch; nothing is polled on a grid."""


class Services(Protocol):
    """Services that the gates stand in for while their pods sleep."""

    def read(self, ref: ServiceRef) -> Service:
        """`NotFound` where there is none, or none that may be taken over. Its takeover and the pods that are
        ready are of one moment."""

    def gates(self) -> Sequence[str]:
        """Addresses of the gates that are ready, in order."""

    def take_over(self, seen: Service, ports: Sequence[GatePort], gates: Sequence[str]) -> Takeover:
        """Point the Service at these gates, next to its pods, provided that its takeover is as it was `seen`
        (else `Conflict`). It always changes the version: a caller that saw the takeover earlier can no longer
        release it. `NotOurs` where another has an object of that name."""

    def release(self, seen: Takeover) -> None:
        """Remove exactly the version that was seen (else `Conflict`); gone already is success."""

    def list_taken(self) -> Sequence[Takeover]:
        """All takeovers there are, in any order."""


class Declarations(Protocol):
    """Objects of the cluster that declare policies."""

    @property
    def kinds(self) -> frozenset[Declarer]:
        """Which are read. Of the others nothing is known: their policies stay as they are."""

    def read(self) -> Sequence[Declaration]:
        """All of them, or an error: a declaration that is missing from an incomplete list would end its
        policy. What cannot be understood is among them, with the problem."""

    def tell(self, declaration: Declaration, report: Report) -> None:
        """Write the report to the object, provided that it is still the one that was read; gone already is
        success. For one without a status, only problems are reported."""


class Signals(Protocol):
    def read_values(self, queries: Sequence[str]) -> Sequence[Reading]:
        """One reading for each PromQL query, in their order: the sum over its series. Never raises:
        what is gone, slow, empty, NaN, stale or malformed is not known, and says why."""


class Cluster(Protocol):
    def read(self) -> ClusterView:
        """All of it, or an error: an incomplete list is never a view."""

    def read_pods_on(self, node_name: str) -> Sequence[Pod]:
        """Read again, past any cache."""

    def soft_taint(self, effect: SoftTaint, token: int) -> None:
        """Sign with operation and token and prefer no new pods (`model.node.LEAVING`); the node stays
        schedulable. Repeating it is harmless, also after the cordon. `NotOurs` as for cordon."""

    def cordon(self, effect: Cordon, token: int) -> None:
        """Mark unschedulable and sign with operation and token. Repeating it is harmless. `NotOurs`
        for another node under that name, another owner, a higher token, or a person's cordon."""

    def uncordon(self, effect: Uncordon, token: int) -> None:
        """Lift soft taint and cordon of this operation; done already is success. A person's cordon of a
        node that only has our taint stays. `NotOurs` as for cordon."""

    def evict(self, effect: Evict) -> None:
        """Ask for eviction of exactly this pod (by UID); gone already is success.
        `BudgetExhausted` when a disruption budget says not now, `Final` when it never can."""

    def delete_node(self, effect: DeleteNode) -> None:
        """Delete the Node object of exactly this UID; gone already is success."""


class Cloud(Protocol):
    def launch(self, effect: Launch) -> Instance:
        """Idempotent by the slot's key: a repeat returns the instance of the first. `NoCapacity` is
        definite; `Unanswered` must be repeated with the same slot."""

    def terminate(self, instance_id: str) -> None:
        """Gone, or going already, is success."""

    def list_instances(self) -> Sequence[Instance]:
        """All that carry this cluster's tag, those just gone among them while the cloud shows them."""


class Metrics(Protocol):
    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        """Average CPU use of these nodes, 0 to 1. Never raises: what is not known says why."""


class NodeUses(Protocol):
    def read_use(self, nodes: Sequence[Node]) -> Mapping[str, NodeUse]:
        """What each of these nodes really uses, by name, as shares of what it offers. Never raises: a node
        without a fresh sample is missing. For people: no decision depends on it."""


class Players(Protocol):
    def read_players(self, query: str) -> Mapping[str, int] | None:
        """Players of game servers by `namespace/pod`, or None where not all of it is known. Never raises."""


class Inbox(Protocol):
    def receive(self) -> Sequence[SpotNotice]:
        """Notices not yet acknowledged, in any order, perhaps more than once."""

    def acknowledge(self, notice: SpotNotice) -> None: ...


class Notifier(Protocol):
    def notify(self, entry: LogEntry) -> None:
        """Tell people. Must not raise."""


class Observer(Protocol):
    """Told what a runner observes and does, for metrics and for people. No decision depends on it. Must not
    raise and must not take long."""

    def looked(self, snapshot: Snapshot, record: Record) -> None:
        """What was seen and recorded at the end of a tick under the cluster's lease."""

    def decided(self, decision: Decision) -> None: ...

    def began(self, work: Operation | Spot) -> None: ...

    def advanced(self, before: Operation | Spot, after: Operation | Spot) -> None:
        """A step that was written."""

    def performed(self, outcomes: Sequence[Outcome]) -> None: ...

    def closed(self, work: Operation | Spot, succeeded: bool) -> None: ...

    def ticked(self, seconds: float, held: bool, error: str) -> None:
        """A tick ended: how long it took, whether under the lease, and the kind of error that ended it."""
