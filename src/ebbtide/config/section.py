"""The common ground of all parts of the configuration: strict types, no unknown keys, no changes; and
amounts as people write them (CPUs, memory with its unit, prices). Offers are rounded down.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any

from pydantic import BaseModel, ConfigDict, WithJsonSchema

Amount = Decimal
AMOUNT = WithJsonSchema({"type": ["string", "number"]})
"""What a schema says of an amount: it is read from text or a number, whatever it becomes."""

_CPU = re.compile(r"^(\d+(?:\.\d+)?)(m?)$")
_MEMORY = re.compile(r"^(\d+(?:\.\d+)?)\s*(Ki|Mi|Gi|Ti|KB|MB|GB|TB|k|M|G|T)B?$")
_BYTES = {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
_MIB = 2**20
_MOST_CPU_MILLI = 10_000_000
_MOST_MEMORY_MIB = 100 * 2**20


class Section(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def read_cpu_milli(value: Any) -> int:
    """Raises `ValueError` for what is no amount of CPU."""
    text = str(value) if _is_number(value) or isinstance(value, str) else ""
    found = _CPU.match(text)
    if found is None:
        raise ValueError("not an amount of CPU; allowed: 4, 3.5 or 3500m")
    milli = int(Decimal(found[1]) * (1 if found[2] else 1000))
    if not 1 <= milli <= _MOST_CPU_MILLI:
        raise ValueError("not a usable amount of CPU; allowed: 1m to 10000")
    return milli


def read_memory_mib(value: Any) -> int:
    """Raises `ValueError` for what is no amount of memory with a unit."""
    found = _MEMORY.match(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("not an amount of memory with its unit; allowed: 8Gi, 7600Mi or 8GB")
    mib = int(Decimal(found[1]) * _BYTES[found[2]] / _MIB)
    if not 1 <= mib <= _MOST_MEMORY_MIB:
        raise ValueError("not a usable amount of memory; allowed: 1Mi to 100Ti")
    return mib


def read_price(value: Any) -> Decimal | None:
    """Raises `ValueError` for what is no price. A price of zero would make everything else look expensive
    for a reason nobody wrote down: what is not known is left out."""
    if value is None:
        return None
    try:
        amount = Decimal(str(value)) if _is_number(value) or isinstance(value, str) else Decimal("NaN")
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount <= 0:
        raise ValueError("not a price per hour; allowed: a number above 0, or leave it out where unknown")
    return amount


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
