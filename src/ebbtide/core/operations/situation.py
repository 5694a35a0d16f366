"""What every machine sees when it is advanced, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from ebbtide.model.effect import Effect
from ebbtide.model.operation import Consolidate, ScaleDown, ScaleUp, Spot, SpotKind
from ebbtide.model.record import Lease, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

Machine = TypeVar("Machine", ScaleUp, ScaleDown, Consolidate, Spot)


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


@dataclass(frozen=True, slots=True)
class Step(Generic[Machine]):
    """The operation as it is to be written, and the effects to perform after that."""

    operation: Machine
    effects: tuple[Effect, ...] = ()
