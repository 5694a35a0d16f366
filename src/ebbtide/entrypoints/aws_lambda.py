"""The tick as a Lambda function: on a schedule, and at once on what EC2 and AWS Health announce.

An event that is handed over is answered in the same run; one that could not be taken in fails the run, so
Lambda delivers it again and at last to the dead-letter queue, and so does a run that could not see its
cluster or cloud, so the platform's alarm on errors fires. Nothing outlives a run: ports are opened
for it and closed after it, since connections do not survive the freeze between two runs.

How often EventBridge calls the function, by its own expression: `rate(1 minute)` or `cron(0/5 * * * ? *)`.
Time between two ticks that is longer than `max_tick_gap_sec` is no idle time, so a schedule with longer gaps
would never scale down (row 48). It is refused at the start of a run.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from ebbtide.adapters.clouds.notices import HandedInbox, read_event
from ebbtide.core.words import a_while
from ebbtide.engine.loop import alarm_if_blind, run_once
from ebbtide.engine.ports import Ports
from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.engine.tick import TickReport
from ebbtide.errors import ConfigError, EbbtideError, Retryable
from ebbtide.model.settings import Settings

VARIABLE = "TICK_SCHEDULE"
RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
CRON = re.compile(r"cron\((\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\)")
SECONDS = {"minute": 60, "hour": 3600, "day": 86_400}
HOUR_MINUTES = 60
ANY = ("*", "?")


def refuse_slow_schedule(expression: str, settings: Settings) -> None:
    """Where the expression is not given, nothing is known and nothing refused."""
    if not expression.strip():
        return
    gap, longest = longest_gap_seconds(expression.strip()), settings.max_tick_gap_seconds
    if gap > longest:
        raise ConfigError(
            f"the schedule {expression} leaves {a_while(gap)} between two ticks, more than max_tick_gap_sec "
            f"({longest}): no idle time would ever be counted, so no node would ever be removed. Nothing was "
            f"touched. Schedule it at least every {a_while(longest)}, or raise max_tick_gap_sec."
        )


def longest_gap_seconds(expression: str) -> int:
    """The longest time between two calls, at least: a day where not every hour of every day has one."""
    if found := RATE.fullmatch(expression):
        return int(found[1]) * SECONDS[found[2]]
    found = CRON.fullmatch(expression)
    if found is None:
        raise ConfigError(
            f"{VARIABLE} is {expression!r}, which is not a schedule of EventBridge; nothing was touched. "
            "Give it as rate(1 minute) or cron(0/5 * * * ? *)."
        )
    minute, *others = found.groups()
    if any(field not in ANY for field in others):
        return SECONDS["hour"]
    minutes = sorted(_minutes(minute, expression))
    gaps = [later - earlier for earlier, later in pairwise(minutes)]
    return max([*gaps, minutes[0] + HOUR_MINUTES - minutes[-1]]) * SECONDS["minute"]


def _minutes(field: str, expression: str) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        try:
            start = 0 if first == "*" else int(first)
            end = int(last) if last else HOUR_MINUTES - 1 if step or first == "*" else start
            found |= set(range(start, end + 1, int(step or 1)))
        except ValueError as cause:
            says = f"{part!r} in {expression} is not a minute; nothing was touched. Correct {VARIABLE}."
            raise ConfigError(says) from cause
    if not found or min(found) < 0 or max(found) >= HOUR_MINUTES:
        raise ConfigError(
            f"{expression} names no minute from 0 to 59; nothing was touched. Correct {VARIABLE}."
        )
    return found


MILLI = 1000
KUBECONFIG_PARAMETER = "KUBECONFIG_PARAMETER"
"""Variable with the name of the SSM parameter that holds the kubeconfig."""
OpenPorts = Callable[[], tuple[Ports, Settings] | tuple[Ports, Settings, Scaling | None]]
"""The ports, the settings and, if workloads are scaled too, the scaling."""


class Context(Protocol):
    """The part of Lambda's context that is used."""

    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int: ...


def handler(event: object, context: Context) -> Mapping[str, Any]:
    return run(event, context, open_ports)


def open_ports() -> tuple[Ports, Settings, Scaling | None]:
    """What the configuration in the package or in the environment says."""
    from ebbtide.bootstrap import build, close_ports
    from ebbtide.bootstrap.scaling import with_scaling
    from ebbtide.config import load
    from ebbtide.config.prices import price_warnings

    if parameter := os.environ.get(KUBECONFIG_PARAMETER):
        os.environ["KUBECONFIG"] = str(fetch_kubeconfig(parameter, Path(tempfile.gettempdir())))
    config = load(None, os.environ)
    refuse_slow_schedule(os.environ.get(VARIABLE, ""), config.settings)
    for warning in price_warnings(config, datetime.now(UTC).date()):
        _told({"warning": warning})
    ports = build(config)
    try:
        both = with_scaling(config, ports, say=lambda says: _told({"policies": says}))
    except BaseException:
        close_ports(ports)
        raise
    return both.ports, config.settings, both.scaling


def fetch_kubeconfig(parameter: str, folder: Path) -> Path:
    """From SSM into a file that only we can read; asked again for each run, since it may be renewed."""
    from ebbtide.adapters.clouds.aws import make_client
    from ebbtide.adapters.clouds.aws_errors import translated

    client = make_client("ssm")
    try:
        with translated(f"reading the parameter {parameter}"):
            found = client.get_parameter(Name=parameter, WithDecryption=True)
    finally:
        client.close()
    path = folder / "ebbtide-kubeconfig"
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(found["Parameter"]["Value"])
    return path


def run(raw: object, context: Context, opener: OpenPorts) -> Mapping[str, Any]:
    from ebbtide.bootstrap import close_ports

    ports, settings, *more = opener()
    try:
        event = read_event(raw, ports.clock.now())
        if not event.calls_for_a_tick:
            return _told({"event": event.kind, "says": f"dropped: {event.says}"})
        inbox = HandedInbox(event.notices, ports.inbox)
        owner = f"lambda-{context.aws_request_id}-{secrets.token_hex(3)}"
        deadline = ports.clock.now() + budget_seconds(context, settings)
        report = run_once(replace(ports, inbox=inbox), settings, owner, deadline)
        rounded = {"policies": said} if (said := _round(more, owner, deadline)) else {}
        blind = _metric(report, settings) if report.problems else {}
        answer = _told({"event": event.kind, **_summary(report), **rounded, **blind})
        fails = alarm_if_blind(ports, report)
    finally:
        close_ports(ports)
    if inbox.waiting:
        names = ", ".join(notice.instance_id for notice in inbox.waiting)
        raise Retryable(f"the notice for {names} was not taken in ({report.says}): Lambda delivers it again")
    if fails:
        raise Retryable(fails)
    return answer


def _round(more: Sequence[Scaling | None], owner: str, deadline: float) -> str:
    """The policies after the nodes: an interruption cannot wait. A round that fails is no reason to deliver
    the event again; the next run begins from the states."""
    scaling = more[0] if more else None
    if scaling is None:
        return ""
    try:
        report = scaling.round(owner, deadline)
    except EbbtideError as error:
        return f"the round over the policies failed: {error}"
    return report.says if report.policies or not report.held else ""


def budget_seconds(context: Context, settings: Settings) -> float:
    """What is left, less one call that may just have been started; never less than half of it."""
    left = context.get_remaining_time_in_millis() / MILLI
    return max(left - settings.request_timeout_seconds, left / 2)


def _metric(report: TickReport, settings: Settings) -> dict[str, Any]:
    """As CloudWatch reads metrics out of log lines: a run that could not see its cluster or cloud."""
    name = "ObservationFailed"
    metrics = [{"Name": name, "Unit": "Count"}]
    where = {"Namespace": "Ebbtide", "Dimensions": [["cluster"]], "Metrics": metrics}
    told = {"Timestamp": report.at * MILLI, "CloudWatchMetrics": [where]}
    return {"problems": list(report.problems), "cluster": settings.cluster, name: 1, "_aws": told}


def _summary(report: TickReport) -> dict[str, Any]:
    decision = report.decision
    return {
        "at": report.at,
        "says": report.says,
        "held": report.held,
        "decision": None if decision is None else {"id": decision.id, "action": decision.action},
    }


def _told(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer, which is also the run's line in the function's log."""
    print(json.dumps(answer, ensure_ascii=False), flush=True)
    return answer
