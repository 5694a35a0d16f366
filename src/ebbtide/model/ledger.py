"""The ledger: seconds per policy and day, and money derived from them.

Seconds are whole and exact. Money is `price_seconds / 3600`, kept as the exact product of price per hour
and seconds, so nothing is rounded before it is shown. Days are those of the policy's zone, so some
have 23 or 25 hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from ebbtide.model.idle import Phase, Rate

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Stretch:
    """One unbroken time in one phase at one price. The ledger is the sum of them, and so is its rebuild
    from the log, where each is an entry of its own."""

    policy_id: str
    zone: str
    phase: Phase
    since: int
    until: int
    rate: Rate | None = None
    wakes: int = 0
    """Wakes that ended this stretch (0 or 1)."""
    wake_seconds: int = 0
    """How long the target then ran before it was of use: paid for, and not saved."""


@dataclass(frozen=True, slots=True)
class LedgerDay:
    """One row of `scaling_cost_savings`. Money of different currencies is never added up."""

    policy_id: str
    date: str
    """Of the policy's zone, ISO 8601."""
    currency: str = ""
    source: str = ""
    idle_seconds: int = 0
    """Idle and still up: what could have been saved. Idle hours as they are shown add the time at zero."""
    scaled_to_zero_seconds: int = 0
    idle_price_seconds: Decimal = Decimal(0)
    zero_price_seconds: Decimal = Decimal(0)
    wakes: int = 0
    wake_price_seconds: Decimal = Decimal(0)
    realised_price_seconds: Decimal = Decimal(0)
    """Of the nodes really not paid meanwhile; never more than `zero_price_seconds`."""
    unpriced_seconds: int = 0
    """At zero with no known price: time that is not turned into money."""


Days = Sequence[LedgerDay]
