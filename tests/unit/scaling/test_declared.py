"""Policies that objects declare: who gets a target that two want, and what an object is told."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from ebbtide.core.scale_to_zero.policy_checks import (
    Claims,
    first_day,
    in_order,
    is_due,
    merged,
    not_applied,
    report_of,
    saved_lately,
)
from ebbtide.model.idle import LedgerDay, Phase
from ebbtide.model.policy import (
    Declarer,
    ObjectRef,
    Readiness,
    Report,
    SavedLately,
    Schedule,
    ServiceRef,
    WakeOnRequest,
    declared_by,
)
from tests.builders import NOW
from tests.memory_declarations import make_object
from tests.policy_harness import make_policy, make_ref, make_state, policy_id

TODAY = "2023-11-14"


def test_an_origin_names_its_object_and_other_origins_name_none() -> None:
    ref = ObjectRef(Declarer.SLEEP_POLICY, "shop", "nights")
    assert declared_by(make_policy(origin=ref.origin)) == "SleepPolicy shop/nights" == str(ref)
    assert declared_by(make_policy(origin="configuration")) == declared_by(make_policy()) == ""


def test_objects_come_before_annotations_and_older_ones_before_younger() -> None:
    annotated = make_object("a", kind=Declarer.DEPLOYMENT, created_at=NOW - 9)
    old, young = make_object("z", created_at=NOW - 5), make_object("b")
    assert [one.ref.name for one in in_order([annotated, young, old])] == ["z", "b", "a"]


def test_a_policy_that_is_known_keeps_its_identity_and_the_times_of_its_schedules() -> None:
    night = Schedule("0 20 * * *", replicas=0)
    known = make_policy(
        version=7, created_at=5, updated_at=6, origin="x", schedules=(replace(night, written_at=5),)
    )
    wanted = make_policy(id=policy_id(9), schedules=(night,))
    assert merged(wanted, known, "x") == known
    fresh = merged(wanted, None, "x")
    assert (fresh.id, fresh.version, fresh.origin) == (policy_id(9), 0, "x")


def test_claims_name_the_other_policies_on_a_workload_or_a_service() -> None:
    gate = WakeOnRequest((ServiceRef("default", "web"),))
    web = make_policy("web", id=policy_id(1), gate=gate)
    claims = Claims([web, make_policy("api", make_ref("api"), id=policy_id(2))])
    both = make_policy("both", make_ref("web"), make_ref("api"), id=policy_id(3))
    assert [each.name for each in claims.rivals(both)] == ["web", "api"]
    assert claims.rivals(web) == []
    other = make_policy("other", make_ref("other"), id=policy_id(4), gate=gate)
    assert claims.rivals(other) == [web]
    claims.put(replace(web, enabled=False))
    assert claims.rivals(other) == []
    claims.put(other)
    claims.put(replace(web, enabled=True))
    assert claims.rivals(web) == [other], "who had the Service first keeps it"


def test_savings_are_those_of_thirty_days_in_euros_where_there_are_any() -> None:
    policy = make_policy()
    first, last = first_day("UTC", NOW)
    assert (last, first) == (TODAY, "2023-10-16")

    def row(currency: str, date: str = TODAY, hours: int = 2) -> LedgerDay:
        seconds = hours * 3600
        money = Decimal(seconds) if currency else Decimal(0)
        return LedgerDay(
            policy.id,
            date,
            currency,
            scaled_to_zero_seconds=seconds,
            zero_price_seconds=money,
            realised_price_seconds=money,
        )

    assert saved_lately(policy, [], NOW) == SavedLately(TODAY)
    assert saved_lately(policy, [row("")], NOW) == SavedLately(TODAY, 7200)
    rows = [row("CHF"), row("USD", hours=5)]
    assert saved_lately(policy, rows, NOW) == SavedLately(TODAY, 25200, "2.00", "CHF")
    rows = [row("CHF"), row("EUR", hours=3), row("EUR", "2023-10-15")]
    assert saved_lately(policy, rows, NOW) == SavedLately(TODAY, 18000, "3.00", "EUR")


def test_the_ledger_is_asked_again_when_a_phase_or_a_day_has_ended() -> None:
    policy, state = make_policy(), make_state(Phase.ZERO)
    saved = SavedLately(TODAY)
    told = Report(Readiness.APPLIED, "", 1, phase=Phase.ZERO, saved=saved)
    assert not is_due(told, policy, state, NOW)
    assert is_due(None, policy, state, NOW)
    assert is_due(replace(told, saved=None), policy, state, NOW)
    assert is_due(replace(told, phase=Phase.IDLE), policy, state, NOW)
    assert is_due(told, policy, state, NOW + 86_400)


@pytest.mark.parametrize(
    ("state", "since", "why"),
    [
        (make_state(Phase.ZERO, scaled_to_zero_at=NOW - 50), NOW - 50, ""),
        (make_state(Phase.ZERO, scaled_to_zero_at=None), 0, ""),
        (make_state(Phase.IDLE), NOW - 3600, ""),
        (make_state(Phase.IDLE, idle_since=None), 0, ""),
        (make_state(Phase.FALLING), NOW, ""),
        (make_state(Phase.WAKING, last_wake_at=NOW - 5), NOW - 5, ""),
        (make_state(), 0, ""),
        (make_state(paused=True), 0, "the policy is paused"),
        (make_state(keep_up_until=NOW + 1), 0, "it is kept up"),
        (
            make_state(left_alone="there is no Deployment default/web"),
            0,
            "there is no Deployment default/web",
        ),
    ],
    ids=lambda value: str(getattr(value, "phase", value))[:40],
)
def test_an_object_is_told_the_phase_its_time_and_why_it_stays_up(
    state: object, since: int, why: str
) -> None:
    assert hasattr(state, "phase")
    report = report_of(make_object(generation=4), make_policy(), state, None, NOW)  # type: ignore[arg-type]
    assert (report.ready, report.generation, report.target) == (Readiness.APPLIED, 4, "web")
    assert (report.phase, report.since, report.why_awake) == (state.phase, since, why)


def test_a_policy_of_schedules_alone_is_not_told_that_idleness_is_not_watched() -> None:
    def why(**changes: Any) -> str:
        return report_of(make_object(), make_policy(**changes), make_state(), None, NOW).why_awake

    assert why(scale_to_zero=False) == ""
    assert why(signals=()) == "it has no signals, so idleness is not watched"
    assert why(enabled=False) == "the policy is not enabled"


def test_an_object_that_is_not_applied_is_told_why_and_how_its_old_policy_is_doing() -> None:
    one = make_object(generation=3)
    assert not_applied(None, one, Readiness.INVALID, "no") == Report(Readiness.INVALID, "no", 3)
    before = report_of(one, make_policy(), make_state(Phase.IDLE), None, NOW)
    after = not_applied(before, one, Readiness.CONFLICT, "taken")
    assert after == replace(before, ready=Readiness.CONFLICT, says="taken")
