"""What pods asked for over the last while: whether demand is settled enough to repack.

Consolidation saves only until the demand returns that its nodes were launched for. Then pods are pending
until new nodes are ready. So it waits while demand has risen a lot lately. Demand that only falls does not
hold it up.
Demand is the sum of the requests of all pods that do not come and go with a node, the pending ones among
them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.core.words import a_while
from ebbtide.model.check import Check
from ebbtide.model.record import Demand, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

PARTS = 30
"""In how many parts the time is kept: the record must stay small."""


def track_demand(
    snapshot: Snapshot, before: tuple[Demand, ...], settings: Settings, now: int
) -> tuple[Demand, ...]:
    """The highest demand of each part of the time that counts, the oldest first."""
    window = settings.settled_seconds
    if not window:
        return ()
    # A clock that went back leaves stamps from the future, which would never grow old.
    kept = [one for one in before if now - window < one.at <= now]
    cpu, memory = _asked_for(snapshot)
    if kept and now - kept[-1].at < max(1, window // PARTS):
        last = kept.pop()
        return (*kept, Demand(last.at, max(last.cpu_milli, cpu), max(last.memory_mib, memory)))
    return (*kept, Demand(now, cpu, memory))


def settled(record: Record, settings: Settings) -> Check:
    rise = max(
        _largest_rise([one.cpu_milli for one in record.demand]),
        _largest_rise([one.memory_mib for one in record.demand]),
    )
    says = f"demand rose by {rise:.0%} within the last {a_while(settings.settled_seconds)}"
    says += f", at most {settings.settled_rise:.0%} is allowed"
    return Check("demand settled", rise <= settings.settled_rise, says)


def _asked_for(snapshot: Snapshot) -> tuple[int, int]:
    pods = (pod for pod in snapshot.cluster.pods if not (pod.finished or pod.terminating or pod.tied_to_node))
    asked = [pod.requests for pod in pods]
    return sum(one.cpu_milli for one in asked), sum(one.memory_mib for one in asked)


def _largest_rise(amounts: Sequence[int]) -> float:
    """From a low to a later high, as a share of the high."""
    rise, low = 0.0, amounts[0] if amounts else 0
    for amount in amounts:
        low = min(low, amount)
        if amount:
            rise = max(rise, (amount - low) / amount)
    return rise
