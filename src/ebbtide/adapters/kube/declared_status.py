"""The status of a `SleepPolicy`: what `kubectl get` and `kubectl wait` read, from a report and back.

A condition keeps the time of its last change while it stays what it is, so writing the same report twice
writes the same status.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ebbtide.adapters.kube.objects import read_time
from ebbtide.adapters.kube.wire import Struct
from ebbtide.model.declared import Readiness, Report, SavedLately
from ebbtide.model.idle import Phase

READY, ASLEEP = "Ready", "Asleep"
PHASES = {
    Phase.ACTIVE: "Active",
    Phase.IDLE: "Idle",
    Phase.FALLING: "Falling",
    Phase.ZERO: "Asleep",
    Phase.WAKING: "Waking",
}
_PHASE_OF = {shown: phase for phase, shown in PHASES.items()}
IN_USE = "it is in use, or has not been idle for long enough"


class WireCondition(Struct, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class WireSavings(Struct, frozen=True):
    until: str = ""
    asleep_seconds: int = 0
    amount: str = ""
    currency: str = ""


class WireStatus(Struct, frozen=True):
    observed_generation: int = 0
    target: str = ""
    phase: str = ""
    since: str | None = None
    savings: WireSavings | None = None
    conditions: list[WireCondition] | None = None


def read_report(status: WireStatus) -> Report | None:
    """None where it says nothing that we would have written."""
    conditions = {each.type: each for each in status.conditions or ()}
    ready, asleep = conditions.get(READY), conditions.get(ASLEEP)
    if ready is None or ready.reason not in Readiness.__members__.values():
        return None
    saved = status.savings
    why = asleep.message if asleep is not None and asleep.status == "False" else ""
    return Report(
        Readiness(ready.reason),
        ready.message,
        status.observed_generation,
        status.target,
        _PHASE_OF.get(status.phase, ""),
        read_time(status.since) if status.since else 0,
        "" if why == IN_USE else why,
        SavedLately(saved.until, saved.asleep_seconds, saved.amount, saved.currency) if saved else None,
        tuple((each.type, each.status, each.last_transition_time or "") for each in conditions.values()),
    )


def write_report(report: Report, told: Report | None, now: int) -> dict[str, Any]:
    changed = {kind: (status, at) for kind, status, at in (told.transitions if told is not None else ())}
    body: dict[str, Any] = {
        "observedGeneration": report.generation,
        "conditions": [
            _condition(changed, now, READY, report.ready is Readiness.APPLIED, (report.ready, report.says))
        ],
    }
    if not report.phase:
        return body
    phase = Phase(report.phase)
    at_zero = phase is Phase.ZERO
    says = "its workloads are at zero" if at_zero else report.why_awake or IN_USE
    body["conditions"].append(_condition(changed, now, ASLEEP, at_zero, (PHASES[phase], says)))
    saved = report.saved
    return {
        **body,
        "target": report.target,
        "phase": PHASES[phase],
        "since": _moment(report.since) if report.since else None,
        "savings": _savings(saved) if saved is not None else None,
    }


def _condition(
    changed: dict[str, tuple[str, str]], now: int, kind: str, holds: bool, told: tuple[str, str]
) -> dict[str, str]:
    status = str(holds)
    before, at = changed.get(kind, ("", ""))
    return {
        "type": kind,
        "status": status,
        "reason": told[0],
        "message": told[1],
        "lastTransitionTime": at if before == status and at else _moment(now),
    }


def _savings(saved: SavedLately) -> dict[str, Any]:
    hours, minutes = divmod(saved.asleep_seconds // 60, 60)
    return {
        "until": saved.until,
        "asleepSeconds": saved.asleep_seconds,
        "asleep": f"{hours}h{minutes}m",
        "amount": saved.amount,
        "currency": saved.currency,
        "shown": f"{saved.amount} {saved.currency}" if saved.amount else "",
    }


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
