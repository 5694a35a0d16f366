"""The six doors to the outside. Adapters implement them, the simulator too; one contract suite each.

Common to all: errors are those of `ebbtide.errors`. A call that raises `Unanswered` may have been
carried out, one that raises anything else was not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from ebbtide.model.effect import Cordon, DeleteNode, Evict, Launch, Uncordon
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.node import Instance
from ebbtide.model.operation import SpotNotice
from ebbtide.model.pod import Pod
from ebbtide.model.record import Lease, Record
from ebbtide.model.snapshot import ClusterView, Reading


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""

    def sleep(self, seconds: float) -> None: ...


class Store(Protocol):
    """The record of one cluster, its leases and its log. Reads are consistent."""

    def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
        """Take a lease that is free, run out, or already ours (then the token stays the same and only
        `until` moves). A change of holder raises the token. `LeaseLost` while another holds it, which
        is up to and including the second `until`."""

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        """Move `until` on. `LeaseLost` when the lease is no longer ours, or has run out."""

    def release(self, lease: Lease) -> None:
        """Give it back; does nothing when it is no longer ours."""

    def load(self) -> Record:
        """The record; a fresh one when nothing was ever written. `NewerRecord` when a newer version
        wrote it, `StoreUnusable` when it cannot be read."""

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        """Replace the record and append the entries, all or nothing. Conditions: `rev` is still that of
        `record` and no other operation than that of `record` is under way (else `Conflict`), and the
        guard still holds and has not run out (else `LeaseLost`). Returns the record with its new
        `rev`. Lease fields are not changed by it."""

    def append(self, entries: Sequence[LogEntry]) -> None:
        """Append alone; an entry whose id is there already is left as it is."""

    def read_log(
        self, kinds: Collection[LogKind] = (), subject: str = "", limit: int = 100
    ) -> Sequence[LogEntry]:
        """The newest entries first, by their ids; of all kinds and subjects where none is named."""

    def find_entry(self, entry_id: str) -> LogEntry | None: ...

    def close(self) -> None: ...


class Cluster(Protocol):
    def read(self) -> ClusterView:
        """All of it, or an error: an incomplete list is never a view."""

    def read_pods_on(self, node_name: str) -> Sequence[Pod]:
        """Asked afresh, past any cache."""

    def cordon(self, effect: Cordon, token: int) -> None:
        """Mark unschedulable and sign with operation and token. Repeating it is harmless. `NotOurs`
        for another node under that name, another owner, a higher token, or a person's cordon."""

    def uncordon(self, effect: Uncordon, token: int) -> None:
        """Lift a cordon of this operation; done already is success. `NotOurs` as for cordon."""

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


class Inbox(Protocol):
    def receive(self) -> Sequence[SpotNotice]:
        """Notices not yet acknowledged, in any order, perhaps more than once."""

    def acknowledge(self, notice: SpotNotice) -> None: ...


class Notifier(Protocol):
    def notify(self, entry: LogEntry) -> None:
        """Tell people. Must not raise."""
