"""Prices. A price that is not known is None wherever it may appear, never zero."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Price:
    per_hour: Decimal
    currency: str
    source: str
    as_of: str = ""
    """The day the price was read, ISO 8601; empty where the source does not say."""
