"""The keys of scaling to zero, for policies that say nothing themselves. Times are as in Go: `1h30m`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from ebbtide.config.section import Section
from ebbtide.model.policy import ZeroDefaults

DEFAULTS = ZeroDefaults()
YEAR_SECONDS = 31_536_000
ALLOWED = "a duration of whole seconds such as 90s, 30m or 1h30m"
_PART = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
_WHOLE = re.compile(f"(?:{_PART})+")
_SECONDS = {
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
    "ns": Decimal("0.000000001"),
}
_MICRO = Decimal("0.000001")


def read_duration(text: str) -> int:
    """Seconds of a duration as Go writes it. Raises `ValueError` for anything else."""
    if text == "0":
        return 0
    if _WHOLE.fullmatch(text) is None:
        raise ValueError(f"not a duration; allowed: {ALLOWED}")
    parts = re.findall(_PART, text)
    seconds = sum((Decimal(number) * _SECONDS.get(unit, _MICRO) for number, unit in parts), Decimal(0))
    if seconds != int(seconds) or seconds > YEAR_SECONDS:
        raise ValueError(f"no usable duration; allowed: {ALLOWED}, a year at most")
    return int(seconds)


def write_duration(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    minutes, left = divmod(rest, 60)
    text = f"{hours}h" * (hours > 0) + f"{minutes}m" * (minutes > 0) + f"{left}s" * (left > 0)
    return text or "0s"


def _checked(text: str) -> str:
    read_duration(text)
    return text


def _not_nothing(text: str) -> str:
    if not read_duration(text):
        raise ValueError(f"no time at all; allowed: {ALLOWED}, more than 0")
    return text


def _duration(seconds: int, says: str) -> Any:
    return Field(write_duration(seconds), description=says, json_schema_extra={"allowed": ALLOWED})


Duration = Annotated[str, AfterValidator(_checked)]
SomeTime = Annotated[str, AfterValidator(_not_nothing)]


class ScaleToZeroKeys(Section):
    idle_threshold: Duration = _duration(
        DEFAULTS.idle_threshold_seconds, "A target must have been idle this long..."
    )
    keep_alive: Duration = _duration(
        DEFAULTS.keep_alive_window_seconds, "...and then quiet this long, before it goes to zero."
    )
    cold_start_timeout: SomeTime = _duration(
        DEFAULTS.cold_start_timeout_seconds, "How long a caller waits for a wake to be ready."
    )
    check_interval: SomeTime = _duration(
        DEFAULTS.check_interval_seconds, "Time between two rounds of the idle loop."
    )
    cost_tracking: bool = Field(DEFAULTS.cost_tracking, description="Whether the savings ledger is kept.")
    max_keep_alive: Duration = _duration(
        DEFAULTS.max_keep_alive_seconds,
        "The longest keep-alive window, if it grows because wakes cost too much.",
    )
    sleep_policies: bool = Field(
        False, description="Whether SleepPolicy objects of the cluster are applied; needs their CRD."
    )
    sleep_annotations: bool = Field(
        False, description="Whether the annotation `ebbtide.dev/sleep` of workloads is applied."
    )

    def defaults(self) -> ZeroDefaults:
        return ZeroDefaults(
            read_duration(self.idle_threshold),
            read_duration(self.keep_alive),
            read_duration(self.cold_start_timeout),
            read_duration(self.check_interval),
            self.cost_tracking,
            read_duration(self.max_keep_alive),
        )
