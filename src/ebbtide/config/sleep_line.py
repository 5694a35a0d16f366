"""The one line that the annotation `ebbtide.dev/sleep` has: clauses with `;` between them.

    idle 30m                            after 30 minutes without use, by the CPU of its pods
    idle 30m cpu 50m                    in use while its pods take more than 50 millicores together
    idle 30m reported                   in use while somebody reports it to the API, or the gate is used
    nights 20:00-08:00 Europe/Berlin    asleep between these times
    weekends                            with nights: not woken on Saturday and Sunday
    gate web                            the first connection to Service web wakes it

Anything that is not understood is an error that says what is allowed: a typo must not change when it sleeps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ebbtide.config.scale_to_zero import read_duration
from ebbtide.config.section import read_cpu_milli
from ebbtide.core.schedule import check_zone
from ebbtide.model.workload import WorkloadKind, WorkloadRef

IDLE_CPU_MILLI = 10
"""A process that only waits takes less."""
FORMS = (
    "idle 30m, idle 30m cpu 50m, idle 30m reported, nights 20:00-08:00 Europe/Berlin, weekends, gate SERVICE"
)
_CLOCK = r"([01]?[0-9]|2[0-3]):([0-5][0-9])"
_SPAN = re.compile(f"{_CLOCK}-{_CLOCK}")
_POD_ENDS = {WorkloadKind.DEPLOYMENT: "-[a-z0-9]+-[a-z0-9]{5}", WorkloadKind.STATEFUL_SET: "-[0-9]+"}
Keys = dict[str, Any]


def read_line(text: str, ref: WorkloadRef) -> Keys:
    """The keys of the policy that the line means for this workload. `ValueError` says what is wrong."""
    words = [clause.split() for clause in text.split(";") if clause.strip()]
    if not words:
        raise ValueError(f"is empty; allowed: {FORMS}")
    names = [clause[0] for clause in words]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise ValueError(f"says {twice} twice; say it once")
    found: Keys = {}
    for name, *rest in words:
        if name not in _READERS:
            raise ValueError(f'"{name}" is not understood; allowed: {FORMS}')
        found |= _READERS[name](rest, ref)
    weekends = found.pop("weekends", False)
    nights = found.pop("nights", None)
    if weekends and nights is None:
        raise ValueError("weekends needs nights, such as nights 20:00-08:00 Europe/Berlin; weekends")
    if nights is not None:
        found["schedules"] = night_schedules(*nights, weekends=weekends)
    if "schedules" not in found and "signals" not in found:
        raise ValueError("says neither idle nor nights, so it would never sleep")
    return found


def night_schedules(sleep: str, wake: str, zone: str, *, weekends: bool) -> tuple[Keys, ...]:
    """`20:00`, `08:00`: asleep in between, and with `weekends` from Friday evening until Monday morning."""
    if clock_of(sleep) == clock_of(wake):
        raise ValueError("sleeps and wakes at the same time; give two times")
    days = "1-5" if weekends else "*"
    return (
        {"cron": f"{_cron_clock(sleep)} * * *", "zone": zone, "replicas": 0},
        {"cron": f"{_cron_clock(wake)} * * {days}", "zone": zone, "wake": True},
    )


def clock_of(text: str) -> tuple[int, int]:
    hour, _, minute = text.partition(":")
    return int(hour), int(minute)


def cpu_signal(ref: WorkloadRef, milli: int) -> Keys:
    """In use while its pods together take more than this. Without Prometheus it is unknown, and what is
    unknown is not idle."""
    pods = ref.name.replace(".", "[.]") + _POD_ENDS[ref.kind]
    selects = f'namespace="{ref.namespace}",pod=~"{pods}",container!=""'
    query = f"sum(rate(container_cpu_usage_seconds_total{{{selects}}}[5m]))"
    return {"kind": "cpu", "query": query, "threshold": milli / 1000}


def _cron_clock(text: str) -> str:
    hour, minute = clock_of(text)
    return f"{minute} {hour}"


def _idle(words: list[str], ref: WorkloadRef) -> Keys:
    match words:
        case [duration]:
            signal = cpu_signal(ref, IDLE_CPU_MILLI)
        case [duration, "cpu", amount]:
            signal = cpu_signal(ref, _milli(amount))
        case [duration, "reported"]:
            signal = {"kind": "reported"}
        case _:
            raise ValueError("idle is not understood; allowed: idle 30m, idle 30m cpu 50m, idle 30m reported")
    try:
        seconds = read_duration(duration)
    except ValueError as error:
        raise ValueError(f'idle "{duration}" is {error}') from error
    return {
        "scale_to_zero": True,
        "idle_threshold_seconds": seconds,
        "keep_alive_window_seconds": 0,
        "signals": ({**signal},),
    }


def _milli(amount: str) -> int:
    try:
        return read_cpu_milli(amount)
    except ValueError as error:
        raise ValueError(f'cpu "{amount}" is {error}') from error


def _nights(words: list[str], ref: WorkloadRef) -> Keys:  # noqa: ARG001 - as every clause
    spans = _SPAN.fullmatch(words[0]) if words else None
    if spans is None or len(words) != 2:  # noqa: PLR2004 - the times and the zone
        raise ValueError("nights is not understood; allowed: nights 20:00-08:00 Europe/Berlin")
    if wrong := check_zone(words[1]):
        raise ValueError(f"nights: {wrong}")
    sleep, wake = words[0].split("-")
    return {"nights": (sleep, wake, words[1]), "zone": words[1]}


def _weekends(words: list[str], ref: WorkloadRef) -> Keys:  # noqa: ARG001 - as every clause
    if words:
        raise ValueError("weekends takes nothing more; the time zone is that of nights")
    return {"weekends": True}


def _gate(words: list[str], ref: WorkloadRef) -> Keys:
    if not words:
        raise ValueError("gate names no Service; allowed: gate SERVICE")
    return {"gate": {"services": tuple({"namespace": ref.namespace, "name": word} for word in words)}}


_READERS: dict[str, Callable[[list[str], WorkloadRef], Keys]] = {
    "idle": _idle,
    "nights": _nights,
    "weekends": _weekends,
    "gate": _gate,
}
