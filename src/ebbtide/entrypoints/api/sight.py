"""What is observed of the cluster, and the last observation if it cannot be read now.

Stale is not empty: a cluster that does not answer has not lost its nodes. Where a source cannot be read, its
last values stay, and `stale` says since when. The problems of now stay in the snapshot, so nothing computed
from it is taken for a reason to act.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ebbtide.model.node import Node
from ebbtide.model.snapshot import NodeUse, Snapshot
from ebbtide.ports import Clock

LOOK_SECONDS = 5.0
Uses = Mapping[str, NodeUse]
ReadUse = Callable[[Sequence[Node]], Uses]


def nobody_knows(_: Sequence[Node]) -> Uses:
    return {}


class Origin(StrEnum):
    CLUSTER = "cluster"
    CLOUD = "cloud"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class Stale:
    """A source that cannot be read now. `at` is when it was last read; 0 if it never was."""

    origin: Origin
    at: int
    problem: str


@dataclass(frozen=True, slots=True)
class Seen:
    snapshot: Snapshot
    stale: tuple[Stale, ...] = ()
    last_cpu: float | None = None
    """The CPU use that was known last; also where it is unknown now."""
    uses: Uses = field(default_factory=dict)
    """What each node was last known to use, by its UID; one that was never measured is missing."""

    def never(self, origin: Origin) -> bool:
        """Whether nothing is known of it at all: then a count of it is unknown, not 0."""
        return any(each.origin is origin and not each.at for each in self.stale)


class Sight:
    """Looks again when the last look is older than a few seconds: however many pages are open, the cluster
    and the cloud are asked no more often than that."""

    def __init__(
        self,
        look: Callable[[], Snapshot],
        clock: Clock,
        seconds: float = LOOK_SECONDS,
        read_use: ReadUse = nobody_knows,
    ) -> None:
        self._look = look
        self._read_use = read_use
        self._clock = clock
        self._seconds = seconds
        self._lock = threading.Lock()
        self._seen: Seen | None = None
        self._at = 0.0
        self._known = Snapshot(0)
        self._read_at: dict[Origin, int] = {}
        self._uses: Uses = {}

    def snapshot(self) -> Snapshot:
        return self.seen().snapshot

    def seen(self) -> Seen:
        with self._lock:
            now = self._clock.now()
            if self._seen is None or not 0 <= now - self._at < self._seconds:
                self._seen, self._at = self._merged(self._look()), now
            return self._seen

    def _merged(self, fresh: Snapshot) -> Seen:
        unread = unread_in(fresh, self._known)
        for origin in set(Origin) - unread.keys():
            self._read_at[origin] = fresh.at
        kept = fresh
        if Origin.CLUSTER in unread:
            kept = replace(kept, cluster=self._known.cluster, players=self._known.players)
        if Origin.CLOUD in unread:
            kept = replace(kept, instances=self._known.instances)
        self._known = kept if kept.cpu.value is not None else replace(kept, cpu=self._known.cpu)
        stale = tuple(Stale(each, self._read_at.get(each, 0), why) for each, why in unread.items())
        self._uses = self._used_in(kept)
        return Seen(kept, stale, self._known.cpu.value, self._uses)

    def _used_in(self, kept: Snapshot) -> Uses:
        """Fresh where a node has a sample, else what was known of it last, with its time: a sample that is
        missing is no use of 0. Metrics that cannot say the average are not asked once more in the same look:
        each question may cost a timeout."""
        nodes = kept.cluster.nodes
        fresh = self._read_use(nodes) if kept.cpu.value is not None else {}
        found = ((node.uid, fresh.get(node.name) or self._uses.get(node.uid)) for node in nodes)
        return {uid: use for uid, use in found if use is not None}


def unread_in(fresh: Snapshot, known: Snapshot) -> dict[Origin, str]:
    """The sources that `fresh` could not read, each with what is wrong. A cluster without a single node is
    not believed either: `observe` reports that as a problem, and the last nodes are the better picture."""
    says = "; ".join(fresh.problems)
    unread = {}
    if fresh.problems and not fresh.cluster.nodes:
        unread[Origin.CLUSTER] = says
    if fresh.problems and not fresh.instances and (known.instances or fresh.cluster.nodes):
        unread[Origin.CLOUD] = says
    if fresh.cpu.value is None and known.cpu.value is not None and Origin.CLUSTER not in unread:
        unread[Origin.METRICS] = fresh.cpu.problem
    return unread
