"""What the end of an operation does to the record: cooldown after success, back-off after failure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ebbtide.model.operation import Slot, SlotState
from ebbtide.model.record import OfferRest, Record, Rest
from ebbtide.model.settings import Settings


@dataclass(frozen=True, slots=True)
class Closed:
    record: Record
    says: str
    succeeded: bool


def rest_offers(record: Record, slots: Iterable[Slot], settings: Settings, now: int) -> Record:
    """Remember what had no capacity, so that the next launch asks for it last."""
    refused = dict.fromkeys(offer for slot in slots for offer in slot.refused)
    kept = tuple(rest for rest in record.offer_rests if rest.offer not in refused)
    until = now + settings.offer_rest_seconds
    return replace(record, offer_rests=kept + tuple(OfferRest(offer, until) for offer in refused))


def stubborn_rests(slots: Iterable[Slot], settings: Settings, now: int) -> tuple[Rest, ...]:
    """What could not be reclaimed is left alone for a while instead of being adopted again at once."""
    until = now + settings.node_rest_seconds
    return tuple(
        Rest(slot.instance_id, until, slot.reason)
        for slot in slots
        if slot.state is SlotState.FAILED and slot.instance_id
    )


def backoff_until(failures: int, settings: Settings, now: int) -> int:
    """Until when to wait after so many failures in a row: each doubles it, up to a limit."""
    return now + min(settings.backoff_max_seconds, settings.backoff_seconds << min(failures - 1, 20))
