"""What the last consolidation really saved. That its nodes went proves nothing where others were launched
soon after: the same would be planned again and again, and each time pods would move.

When it begins, what all instances cost and what it promises is written down. Once its nodes have gone, what
they cost at rest is compared, until it must have paid back. Where less than half of the promise is left, it
counts as fruitless after all, as if its nodes had stayed. Demand that rose by a little may cost more in
proportion; where it rose by more than `settled_rise`, nobody knows what was launched for what, and the
comparison ends.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal

from ebbtide.core.consolidation.pace import asked_for
from ebbtide.model.consolidation import ConsolidationPlan
from ebbtide.model.record import Record, Saving, changed
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

LEAST_SHARE = Decimal("0.5")
"""Of what it promised; as of the nodes that must go."""


def promised(record: Record, plan: ConsolidationPlan, snapshot: Snapshot, settings: Settings) -> Record:
    """The record with what this plan promises, which is begun with the same write."""
    cpu, memory = asked_for(snapshot)
    saving = Saving(
        record.last_consolidation_at,
        plan.savings_per_hour,
        cost_of(snapshot, settings, plan.currency),
        plan.currency,
        cpu,
        memory,
        record.consolidations_in_vain,
    )
    return replace(record, saving=saving)


def track_saving(snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Record:
    """The record with the last consolidation counted as fruitless, if what it saved is spent again."""
    saving = record.saving
    if saving is None:
        return record
    # An earlier version, which does not know this, may have begun another one since.
    known = saving.begun_at == record.last_consolidation_at
    rise = _rise(saving, snapshot)
    over = now - record.last_consolidation_at >= settings.consolidation.payback_seconds
    if over or not known or rise > settings.settled_rise:
        return changed(record, saving=None)
    # Until its nodes are gone it counts as fruitless in any case; and what is on its way in or out now may
    # be there for a moment only.
    if record.consolidations_in_vain or record.operations or record.leaving or record.spots:
        return record
    usual = saving.cost_before * (1 + Decimal(rise))
    left = usual - cost_of(snapshot, settings, saving.currency)
    if left >= saving.promised * LEAST_SHARE:
        return record
    return changed(record, saving=None, consolidations_in_vain=saving.fruitless)


def cost_of(snapshot: Snapshot, settings: Settings, currency: str) -> Decimal:
    """What all instances of the pools cost an hour, as far as prices are known in this currency."""
    counts = Counter((one.pool, one.instance_type, one.market) for one in snapshot.alive)
    total = Decimal(0)
    for (pool_name, type_name, market), count in counts.items():
        pool = settings.pool_named(pool_name)
        known = pool.type_named(type_name) if pool else None
        price = known.price_in(market) if known else None
        if price is not None and price.currency == currency:
            total += price.per_hour * count
    return total


def _rise(saving: Saving, snapshot: Snapshot) -> float:
    """By what share demand is higher than when it began; 0 where it is not."""
    pairs = zip(asked_for(snapshot), (saving.cpu_milli, saving.memory_mib), strict=True)
    return max(0.0, *(now / max(then, 1) - 1 for now, then in pairs))
