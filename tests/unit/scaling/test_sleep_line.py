"""The sleep annotation and the specification of a SleepPolicy, as policies."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from ebbtide.config.declared import policy_name, policy_of_line, policy_of_spec
from ebbtide.config.scale_to_zero import HttpKeys, NeverWakeKeys, PolicyGateKeys, WakeHeaderKeys
from ebbtide.model.pod import WorkloadKind, WorkloadRef
from ebbtide.model.policy import (
    Declarer,
    ObjectRef,
    Policy,
    Schedule,
    ServiceRef,
    Signal,
    SignalKind,
    WakeOnRequest,
)
from tests.builders import NOW
from tests.memory_declarations import FULL_GATE, GATE_OF_FULL

CRDS = Path(__file__).parents[3] / "deploy" / "helm" / "ebbtide" / "crds"
WEB = ObjectRef(Declarer.DEPLOYMENT, "shop", "web")
NIGHTS = ObjectRef(Declarer.SLEEP_POLICY, "shop", "nights")


def line(text: str, ref: ObjectRef = WEB) -> Policy:
    return policy_of_line(ref, text, NOW)


def spec(**keys: Any) -> Policy:
    return policy_of_spec(NIGHTS, {"workloads": [{"kind": "Deployment", "name": "web"}], **keys}, NOW)


def test_the_line_of_the_documentation() -> None:
    policy = line("idle 30m; nights 20:00-08:00 Europe/Berlin")
    assert policy.name == "shop.deployment_web"
    assert policy.target.workloads == (WorkloadRef(WorkloadKind.DEPLOYMENT, "shop", "web"),)
    assert (policy.scale_to_zero, policy.idle_threshold_seconds, policy.zone) == (True, 1800, "Europe/Berlin")
    assert policy.schedules == (
        Schedule("0 20 * * *", "Europe/Berlin", 0),
        Schedule("0 8 * * *", "Europe/Berlin", wake=True),
    )
    (signal,) = policy.signals
    assert (signal.kind, signal.threshold) == (SignalKind.CPU, 0.01)
    assert 'namespace="shop",pod=~"web-[a-z0-9]+-[a-z0-9]{5}"' in signal.query


def test_idleness_by_an_amount_of_cpu_or_by_what_is_reported() -> None:
    state = ObjectRef(Declarer.STATEFUL_SET, "shop", "db.v1")
    (signal,) = line("idle 1h30m cpu 50m", state).signals
    assert (signal.threshold, 'pod=~"db[.]v1-[0-9]+"' in signal.query) == (0.05, True)
    assert line("idle 90s reported").signals == (Signal(SignalKind.REPORTED),)


def test_weekends_are_slept_through_and_a_gate_wakes() -> None:
    policy = line("nights 19:30-7:05 UTC;weekends ; gate web api;")
    assert policy.scale_to_zero is False
    assert [each.cron for each in policy.schedules] == ["30 19 * * *", "5 7 * * 1-5"]
    assert policy.gate is not None
    assert policy.gate.services == (ServiceRef("shop", "web"), ServiceRef("shop", "api"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty; allowed: idle 30m"),
        (" ; ", "is empty"),
        ("sleep 8h", '"sleep" is not understood; allowed: idle 30m'),
        ("idle", "idle is not understood"),
        ("idle 30", 'idle "30" is not a duration'),
        ("idle 0s", "idle_threshold_seconds: 0 is not allowed"),
        ("idle 30m cpu lots", 'cpu "lots" is not an amount of CPU'),
        ("idle 30m memory 5Mi", "idle is not understood"),
        ("idle 30m; idle 40m", "says idle twice"),
        ("nights", "nights is not understood; allowed: nights 20:00-08:00 Europe/Berlin"),
        ("nights 20:00-08:00", "nights is not understood"),
        ("nights 24:00-08:00 UTC", "nights is not understood"),
        ("nights 20:00-08:00 Mars/Base", "nights: 'Mars/Base' is not a time zone"),
        ("nights 08:00-8:00 UTC", "at the same time"),
        ("weekends", "weekends needs nights"),
        ("nights 20:00-08:00 UTC; weekends UTC", "weekends takes nothing more"),
        ("idle 30m; gate", "gate names no Service"),
        ("gate web", "says neither idle nor nights"),
        ("idle 30m; gate Web!", "gate.services[0].name"),
    ],
)
def test_a_line_that_is_not_understood_says_what_is_allowed(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        line(text)


def test_a_whole_specification() -> None:
    policy = spec(
        timeZone="Europe/Berlin",
        idle={"after": "1h", "keepAlive": "5m", "signals": [{"kind": "cpu", "query": "x", "threshold": 1}]},
        nights={"sleep": "20:00", "wake": "08:00", "weekends": True},
        schedules=[
            {"cron": "0 12 * * 6", "wake": True, "exceptDates": ["2026-12-26"]},
            {"cron": "0 16 * * 6", "timeZone": "UTC", "replicas": 0},
        ],
        grace="10m",
        coldStartTimeout="3m",
        hourlyCost={"amount": "0.25", "currency": "USD"},
        gate={"services": ["web"]},
        enabled=False,
    )
    assert (policy.name, policy.zone, policy.enabled) == ("shop.nights", "Europe/Berlin", False)
    assert (policy.idle_threshold_seconds, policy.keep_alive_window_seconds) == (3600, 300)
    assert (policy.grace_seconds, policy.cold_start_timeout_seconds) == (600, 180)
    assert (policy.hourly_cost, policy.currency) == (Decimal("0.25"), "USD")
    assert policy.schedules == (
        Schedule("0 20 * * *", "Europe/Berlin", 0),
        Schedule("0 8 * * 1-5", "Europe/Berlin", wake=True),
        Schedule("0 12 * * 6", "Europe/Berlin", except_dates=("2026-12-26",), wake=True),
        Schedule("0 16 * * 6", "UTC", 0),
    )
    assert policy.signals == (Signal(SignalKind.CPU, "x", 1.0),)
    assert policy.gate is not None
    assert policy.gate.services == (ServiceRef("shop", "web"),)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"timeZone": "Europe/Atlantis"}, "timeZone: 'Europe/Atlantis' is not a time zone"),
        ({"schedules": [{"cron": "61 * * * *", "replicas": 0}]}, "schedules[0].cron"),
        ({"idle": {"after": "", "signals": [{"kind": "reported"}]}}, 'idle.after: "" is not a duration'),
        ({"grace": "soon"}, 'grace: "soon" is not a duration'),
        ({"schedules": [{"cron": "0 1 * * *", "wake": True, "exceptDates": ["2026-13-01"]}]}, "except_dates"),
    ],
)
def test_what_a_schema_cannot_check_is_named_with_its_place(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        spec(**keys)


def test_names_are_unique_and_short_enough() -> None:
    long = [ObjectRef(Declarer.SLEEP_POLICY, "n" * 60, f"{'x' * 200}{number}") for number in range(2)]
    names = {policy_name(each) for each in [*long, NIGHTS, WEB]}
    names.add(policy_name(ObjectRef(Declarer.SLEEP_POLICY, "shop", "deployment.web")))
    assert len(names) == 5
    assert max(map(len, names)) == 63


def test_a_sleep_policy_can_say_every_rule_of_a_gate() -> None:
    gate = spec(gate=FULL_GATE).gate
    assert gate == replace(GATE_OF_FULL, services=(ServiceRef("shop", "web"),))
    game = {"services": ["web"], "firstBytes": "FE01", "leastBytes": 2}
    assert spec(gate=game).gate == WakeOnRequest(
        (ServiceRef("shop", "web"),), first_bytes="fe01", least_bytes=2
    )


def test_what_is_wrong_with_a_gate_is_named_as_the_object_names_it() -> None:
    http = {"services": ["web"], "protocol": "http", "http": {"neverWake": {"hosts": ["no host"]}}}
    with pytest.raises(ValueError, match=r'^gate\.http\.neverWake\.hosts\[0\]: "no host" is not a host'):
        spec(gate=http)
    with pytest.raises(ValueError, match=r'^gate\.hold: "soon" is '):
        spec(gate={"services": ["web"], "hold": "soon"})


def test_the_definition_knows_every_key_that_a_gate_has_in_a_file() -> None:
    """A rule that is added to one and not to the other could not be set by an object."""
    crd = yaml.safe_load((CRDS / "sleeppolicies.yaml").read_text())
    of_spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]

    def known(schema: Any) -> set[str]:
        return {re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name) for name in schema["properties"]}

    gate = of_spec["gate"]
    http = gate["properties"]["http"]
    assert known(gate) - {"hold"} | {"hold_seconds"} == set(PolicyGateKeys.model_fields)
    assert known(http) == set(HttpKeys.model_fields)
    assert known(http["properties"]["neverWake"]) == set(NeverWakeKeys.model_fields)
    assert known(http["properties"]["wakeHeader"]) == set(WakeHeaderKeys.model_fields)
