"""Refusals compared: the real configuration, the real checks of policies and the real store in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.core.scale_to_zero.policy_checks import check_policy
from ebbtide.entrypoints.aws_lambda import refuse_slow_schedule
from ebbtide.errors import ConfigError, EbbtideError
from ebbtide.model.idle import Once
from ebbtide.model.policy import Policy, Schedule, Target
from tests.builders import NOW, make_settings
from tests.oracle import admission
from tests.oracle.answers import Ruling
from tests.oracle.drawing import Source
from tests.oracle.suite import Report
from tests.policy_harness import PolicyHarness, make_policy, make_ref, policy_id

TYPES = ("cpx12", "cpx22", "cpx32", "cpx62")
INTERVALS = (30, 59, 60, 61, 120, 300, 301, 600, 3600)
GAPS = (60, 300, 600)
RATES = {60: "rate(1 minute)", 120: "rate(2 minutes)", 300: "cron(0/5 * * * ? *)", 3600: "rate(1 hour)"}
MEMBERS = ("web", "api", "db")


@dataclass(frozen=True, slots=True)
class Written:
    """A policy as somebody writes it."""

    members: tuple[str, ...]
    """None for a pool."""
    enabled: bool
    replicas: int
    wakes: bool


@dataclass(frozen=True, slots=True)
class Asked:
    kind: str
    allow_small: bool
    interval: int
    gap: int
    policies: tuple[Written, ...]
    keys: tuple[tuple[str, bool], ...]
    """Of each wake its key, and whether it is written on what is there now."""


def cases(source: Source) -> Asked:
    policies = [
        Written(
            tuple(dict.fromkeys(source.picks(MEMBERS, 0, 3))),
            source.pick((True, True, False)),
            source.pick((0, 1, 2)),
            source.pick((False, False, True)),
        )
        for _ in range(source.number(1, 4))
    ]
    keys = source.picks(tuple((key, fresh) for key in "abc" for fresh in (True, True, False)), 2, 6)
    return Asked(
        source.pick(TYPES),
        source.pick((False, True)),
        source.pick(INTERVALS),
        source.pick(GAPS),
        tuple(policies),
        tuple(keys),
    )


def compare(case: Asked, report: Report) -> None:
    report.cases["refusals"] += 1
    small = f", allow_small: {str(case.allow_small).lower()}"
    pool = f"pools: [{{name: a, types: [{case.kind}], zones: [z]{small}}}]"
    _same(report, admission.type_for_workers(case.kind, case.allow_small), lambda: _read(pool), pool)
    pace = f"interval_sec: {case.interval}\nmax_tick_gap_sec: {case.gap}"
    slow = admission.tick_interval(case.interval, case.gap)
    _same(report, slow, lambda: _read(pace), pace)
    if case.interval in RATES:
        settings = make_settings(max_tick_gap_seconds=case.gap)
        line = RATES[case.interval]
        _same(report, slow, lambda: refuse_slow_schedule(line, settings), f"{line}, {case.gap}")
    _compare_policies(case, report)
    _compare_keys(case, report)


def _read(text: str) -> None:
    build_config(parse_document(text, "ebbtide.yaml"), {})


def _same(report: Report, ruling: Ruling, does: Callable[[], None], told: str) -> None:
    try:
        does()
        refused = ""
    except ConfigError as error:
        refused = str(error)
    if bool(refused) == ruling.allows:
        report.differs(f"{told}: {refused or 'accepted'}, the oracle says {ruling}")


def _compare_policies(case: Asked, report: Report) -> None:
    harness = PolicyHarness(policies=())
    there: dict[str, tuple[tuple[str, ...], bool]] = {}
    for number, written in enumerate(case.policies):
        policy = _policy(number, written)
        names = written.members or ("the pool",)
        allowed = admission.number_in_schedule(len(written.members), written.replicas, written.wakes)
        problems = [one for one in check_policy(policy, (), ()) if one.path[0] == "schedules"]
        if bool(problems) == allowed.allows:
            report.differs(f"{written}: {problems}, the oracle says {allowed}")
        free = admission.target_is_free(names, written.enabled, there)
        try:
            harness.rows.put_policy(policy)
            kept = True
        except EbbtideError:
            kept = False
        if kept != free.allows:
            report.differs(f"{written} after {there}: {kept}, the oracle says {free}")
        if kept:
            there[policy.name] = (names, written.enabled)


def _policy(number: int, written: Written) -> Policy:
    refs = tuple(make_ref(name) for name in written.members)
    schedule = Schedule("0 8 * * *", replicas=written.replicas, wake=written.wakes)
    return make_policy(
        f"p{number}",
        id=policy_id(number + 1),
        target=Target(refs) if refs else Target(pool="general"),
        enabled=written.enabled,
        schedules=(schedule,),
    )


def _compare_keys(case: Asked, report: Report) -> None:
    """A wake with a key lands once; one that was refused for another reason leaves its key as it was."""
    harness, used = PolicyHarness(), set[str]()
    for key, fresh in case.keys:
        report.cases["keys"] += 1
        state = harness.state if fresh else replace(harness.state, rev=harness.state.rev + 5)
        ruling = admission.key_still_counts(key, used)
        try:
            harness.rows.write_state(state, (), (), Once(key, "wake", NOW + 3600, NOW))
            landed = True
        except EbbtideError:
            landed = False
        if landed != (fresh and ruling.allows):
            report.differs(f"{case.keys}: {key} {landed}, the oracle says {ruling}")
        if landed:
            used.add(key)
