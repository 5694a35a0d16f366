"""What every machine of the record sees when it is advanced."""

from __future__ import annotations

from dataclasses import dataclass, field

from ebbtide.core.nodes import capacity
from ebbtide.model.operation import Spot, SpotKind
from ebbtide.model.pool import Pool
from ebbtide.model.record import Lease, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Situation:
    snapshot: Snapshot
    record: Record
    settings: Settings
    lease: Lease
    now: int
    effects_until: int
    """No effect that this runner starts now is started later than this."""
    _totals: dict[str | None, int] = field(default_factory=dict, compare=False, repr=False)
    _over_limits: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def total(self, pool: str | None = None) -> int:
        """Nodes that exist or may yet come to exist. Counted once: every slot of a large launch asks."""
        if pool not in self._totals:
            self._totals[pool] = capacity.total(self.snapshot, self.record, pool)
        return self._totals[pool]

    def why_over_limits(self, pool: Pool) -> str:
        """As `capacity` says, once for each pool."""
        if pool.name not in self._over_limits:
            self._over_limits[pool.name] = capacity.why_over_limits(self.snapshot, self.record, pool)
        return self._over_limits[pool.name]

    def notice_for(self, instance_id: str) -> Spot | None:
        """The interruption that is about to take this instance, if any; one that did not come is none."""
        spot = self.record.spot_for(instance_id)
        if spot is None or spot.kind is not SpotKind.INTERRUPTION:
            return None
        return spot if self.now < spot.deadline + self.settings.gone_grace_seconds else None
