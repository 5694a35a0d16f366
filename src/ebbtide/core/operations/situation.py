"""What every machine of the record sees when it is advanced."""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.model.operation import Spot, SpotKind
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

    def notice_for(self, instance_id: str) -> Spot | None:
        """The interruption that is about to take this instance, if any; one that did not come is none."""
        spot = self.record.spot_for(instance_id)
        if spot is None or spot.kind is not SpotKind.INTERRUPTION:
            return None
        return spot if self.now < spot.deadline + self.settings.gone_grace_seconds else None
