"""Policies from Kubernetes objects: a `SleepPolicy`, or the annotation `ebbtide.dev/sleep` of a workload.

The API server checks a `SleepPolicy` against its schema. What a schema cannot express, such as whether a
time zone exists, is checked here by the rules for a policy in a file. A policy reaches only its own
namespace.

The annotation is one line of clauses, separated by `;`:

    idle 30m                            after 30 minutes without use, by the CPU of its pods
    idle 30m cpu 50m                    in use while its pods take more than 50 millicores together
    idle 30m reported                   in use while somebody reports it to the API, or the gate is used
    nights 20:00-08:00 Europe/Berlin    asleep between these times
    weekends                            with nights: not woken on Saturday and Sunday
    gate web                            the first connection to Service web wakes it

Anything else is an error that lists what is allowed: a typo must not change when a workload sleeps.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from ebbtide.config.policies import PolicyKeys
from ebbtide.config.problems import ConfigProblem, path_text, problems_in
from ebbtide.config.scale_to_zero import read_duration
from ebbtide.config.section import Section, read_cpu_milli
from ebbtide.core.schedule import check_zone
from ebbtide.model.pod import WorkloadKind, WorkloadRef
from ebbtide.model.policy import Declarer, ObjectRef, Policy

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


def _idle_clause(words: list[str], ref: WorkloadRef) -> Keys:
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


def _nights_clause(words: list[str], ref: WorkloadRef) -> Keys:  # noqa: ARG001 - as every clause
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


def _gate_clause(words: list[str], ref: WorkloadRef) -> Keys:
    if not words:
        raise ValueError("gate names no Service; allowed: gate SERVICE")
    return {"gate": {"services": tuple({"namespace": ref.namespace, "name": word} for word in words)}}


_READERS: dict[str, Callable[[list[str], WorkloadRef], Keys]] = {
    "idle": _idle_clause,
    "nights": _nights_clause,
    "weekends": _weekends,
    "gate": _gate_clause,
}


LONGEST_NAME = 63
HASHED = 8
CAPITAL, SMALL = re.compile("[A-Z]"), re.compile("_([a-z])")
DURATIONS = {
    "grace": "grace_seconds",
    "coldStartTimeout": "cold_start_timeout_seconds",
}


def policy_of_spec(ref: ObjectRef, spec: Mapping[str, Any], now: int) -> Policy:
    """Of a `SleepPolicy`. `ValueError` names every problem."""
    zone = spec.get("timeZone", "UTC")
    if wrong := check_zone(zone):
        raise ValueError(f"timeZone: {wrong}")
    keys: Keys = {
        "target": {
            "workloads": tuple(
                {"kind": "Deployment", **one, "namespace": ref.namespace} for one in spec.get("workloads", ())
            )
        },
        "enabled": spec.get("enabled", True),
        "zone": zone,
        "schedules": (
            *_nights(spec.get("nights"), zone),
            *(_schedule(one, zone) for one in spec.get("schedules", ())),
        ),
        **_idle(spec.get("idle")),
        **_cost(spec.get("hourlyCost")),
    }
    for name, key in DURATIONS.items():
        if name in spec:
            keys[key] = _seconds(name, spec[name])
    if gate := spec.get("gate"):
        keys["gate"] = _gate(gate, ref.namespace)
    return _policy(ref, keys, now)


def policy_of_line(ref: ObjectRef, text: str, now: int) -> Policy:
    """Of the annotation of a workload. `ValueError` as above."""
    workload = WorkloadRef(WorkloadKind(ref.kind), ref.namespace, ref.name)
    target = {"workloads": ({"kind": ref.kind.value, "namespace": ref.namespace, "name": ref.name},)}
    return _policy(ref, {"target": target, **read_line(text, workload)}, now)


def policy_name(ref: ObjectRef) -> str:
    """Unique: no name of Kubernetes has an underscore. One that is too long ends in its hash."""
    kind = "" if ref.kind is Declarer.SLEEP_POLICY else f"{ref.kind.lower()}_"
    name = f"{ref.namespace}.{kind}{ref.name}"
    if len(name) <= LONGEST_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:HASHED]
    return f"{name[: LONGEST_NAME - HASHED - 1]}_{mark}"


class _Policies(Section):
    """Problems are looked up as those of `policies[0]` of the configuration."""

    policies: tuple[PolicyKeys, ...]


def _policy(ref: ObjectRef, keys: Keys, now: int) -> Policy:
    try:
        found = _Policies.model_validate({"policies": ({"name": policy_name(ref), **keys},)}).policies[0]
    except ValidationError as error:
        raise ValueError("; ".join(map(_told, problems_in(error)))) from error
    return found.policy(str(uuid.uuid4()), 0, now, now)


def _told(problem: ConfigProblem) -> str:
    path = problem.path[2:]
    if path and path[0] == "gate":
        path = tuple(_camel(part) if isinstance(part, str) else part for part in path)
    place = path_text(path)
    return f"{place}: {problem.says}" if place else problem.says


def _seconds(name: str, text: str) -> int:
    try:
        return read_duration(text)
    except ValueError as error:
        raise ValueError(f'{name}: "{text}" is {error}') from error


def _idle(idle: Mapping[str, Any] | None) -> Keys:
    if idle is None:
        return {}
    return {
        "scale_to_zero": True,
        "idle_threshold_seconds": _seconds("idle.after", idle["after"]),
        "keep_alive_window_seconds": _seconds("idle.keepAlive", idle.get("keepAlive", "0s")),
        "signals": tuple({**one, "threshold": float(one.get("threshold", 0))} for one in idle["signals"]),
    }


def _gate(gate: Mapping[str, Any], namespace: str) -> Keys:
    keys = _snake(gate)
    if "hold" in keys:
        keys["hold_seconds"] = _seconds("gate.hold", keys.pop("hold"))
    return {**keys, "services": tuple({"namespace": namespace, "name": one} for one in gate["services"])}


def _snake(keys: Mapping[str, Any]) -> Keys:
    """The same with the names of a policy in a file: `waitingPage` is `waiting_page`."""
    return {
        CAPITAL.sub(lambda found: f"_{found[0].lower()}", name): _snake(value)
        if isinstance(value, Mapping)
        else value
        for name, value in keys.items()
    }


def _camel(name: str) -> str:
    return SMALL.sub(lambda found: found[1].upper(), name)


def _nights(nights: Mapping[str, Any] | None, zone: str) -> tuple[Keys, ...]:
    if nights is None:
        return ()
    return night_schedules(nights["sleep"], nights["wake"], zone, weekends=nights.get("weekends", False))


def _schedule(one: Mapping[str, Any], zone: str) -> Keys:
    keys: Keys = {"cron": one["cron"], "zone": one.get("timeZone", zone)}
    if one.get("exceptDates"):
        keys["except_dates"] = tuple(one["exceptDates"])
    if one.get("wake"):
        return {**keys, "wake": True}
    return {**keys, "replicas": one.get("replicas", 0)}


def _cost(cost: Mapping[str, Any] | None) -> Keys:
    if cost is None:
        return {}
    return {"hourly_cost": cost["amount"], "currency": cost.get("currency", "EUR")}
