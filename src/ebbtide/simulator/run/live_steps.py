"""How the answer to a fault is recognised: each step says what was reached, from facts of the log, or
nothing."""

from __future__ import annotations

from collections.abc import Callable

from ebbtide.core.words import count_of
from ebbtide.model.effect import OutcomeKind
from ebbtide.model.events import AlarmKind, EffectKind, OperationKind
from ebbtide.model.log import LogKind
from ebbtide.simulator.run.situation import Evidence

SPOT = (OperationKind.INTERRUPTION, OperationKind.REBALANCE)


def pods_pending(seen: Evidence) -> str:
    return (
        f"{count_of(seen.pending, 'pod')} pending."
        if seen.pending
        else "All of them fit."
        if seen.fits
        else ""
    )


def launching(seen: Evidence) -> str:
    launches = sum(one.outcome is OutcomeKind.DONE for one in seen.effects(EffectKind.LAUNCH))
    if launches:
        return f"{count_of(launches, 'node')} launched, {seen.after} after the fault."
    return "No node is needed: the nodes had room." if seen.fits else ""


def nodes_ready(seen: Evidence) -> str:
    ready = sum(len(fact.ready) for fact in seen.closed(OperationKind.SCALE_UP))
    if ready:
        return f"{count_of(ready, 'node')} ready, {seen.after} after the fault."
    return "No node is needed: the nodes had room." if seen.fits and not seen.record.launching else ""


def all_run(seen: Evidence) -> str:
    return f"No pod is pending, {seen.after} after the fault." if not seen.pending else ""


def noticed(seen: Evidence) -> str:
    notices = seen.of(LogKind.SPOT_EVENT)
    return f"{count_of(len(notices), 'notice')} taken in." if notices else ""


def evicting(seen: Evidence) -> str:
    moved = [one for one in seen.effects(EffectKind.EVICT) if one.outcome is OutcomeKind.DONE]
    nodes = len({one.name for one in moved})
    if moved:
        off = f"{count_of(len(moved), 'pod')} moved off {count_of(nodes, 'node')}"
        return f"{off}, {seen.after} after the notice."
    return "The nodes had no pod to move." if not seen.record.spots else ""


def replacing(seen: Evidence) -> str:
    launched = [one for one in seen.effects(EffectKind.LAUNCH) if one.outcome is OutcomeKind.DONE]
    if launched:
        return f"{count_of(len(launched), 'replacement')} launched, {seen.after} after the notice."
    return "No replacement is needed." if not seen.record.spots else ""


def answered(seen: Evidence) -> str:
    closed = seen.closed(*SPOT)
    if seen.record.spots or not closed:
        return ""
    says = closed[-1].reason or "every notice is answered"
    return f"{says[0].upper()}{says[1:]}, {seen.after} after the fault."


def draining(seen: Evidence) -> str:
    cordoned = seen.effects(EffectKind.CORDON, EffectKind.SOFT_TAINT, EffectKind.EVICT)
    return f"{cordoned[0].name} accepts no new pods." if cordoned else ""


def refused(seen: Evidence) -> str:
    refused = [one for one in seen.effects(EffectKind.EVICT) if one.outcome is not OutcomeKind.DONE]
    return f"{refused[0].pod or refused[0].name}: {refused[0].detail or 'refused'}." if refused else ""


def killed(seen: Evidence) -> str:
    died = [entry for entry in seen.of(LogKind.ALARM) if entry.data.get("alarm") == AlarmKind.RUNNER_DIED]
    return f"{died[0].data.get('detail', '')}." if died else ""


def taken_over(seen: Evidence) -> str:
    died = [entry for entry in seen.of(LogKind.ALARM) if entry.data.get("alarm") == AlarmKind.RUNNER_DIED]
    later = [entry for entry in seen.of(LogKind.EFFECT) if died and entry.id > died[0].id]
    return f"The other runner continues from the record, {seen.after} after the fault." if later else ""


def gone(says: str) -> Callable[[Evidence], str]:
    """Reached at once: the fault itself."""

    def reached(_seen: Evidence) -> str:
        return says

    return reached


def over(says: str) -> Callable[[Evidence], str]:
    def reached(seen: Evidence) -> str:
        return "" if seen.troubled else f"{says}, {seen.after} after the fault."

    return reached
