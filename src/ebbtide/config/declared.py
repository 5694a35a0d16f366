"""From what objects of the cluster say to policies: a `SleepPolicy`, or the sleep annotation of a workload.

The API server has checked a `SleepPolicy` against its schema. What a schema cannot say, such as whether a
time zone exists, is checked here by the rules for a policy in a file. A policy reaches no further than
its object: workloads and Services are those of its own namespace.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ebbtide.config.policies import PolicyKeys
from ebbtide.config.problems import Problem, path_text, problems_in
from ebbtide.config.scale_to_zero import read_duration
from ebbtide.config.section import Section
from ebbtide.config.sleep_line import Keys, night_schedules, read_line
from ebbtide.core.schedule import check_zone
from ebbtide.model.declared import Declarer, ObjectRef
from ebbtide.model.policy import Policy
from ebbtide.model.workload import WorkloadKind, WorkloadRef

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


def _told(problem: Problem) -> str:
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
