"""The keys of wake on request: what people write is what is kept, and what is wrong is said."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ebbtide.adapters.stores.codec.policies import Bodies, policy_body
from ebbtide.config.policies import PolicyKeys, keys_of
from ebbtide.config.scale_to_zero import GateKeys, PolicyGateKeys
from ebbtide.model.policy import Policy, ServiceRef, WakeOnRequest
from tests.policy_harness import policy_id

GATE: dict[str, Any] = {
    "services": [{"namespace": "shop", "name": "web"}],
    "hold_seconds": 25,
    "max_held": 7,
    "sources": ["10.0.0.0/8"],
    "first_bytes": "FE01",
    "least_bytes": 4,
}


def test_a_policy_with_a_gate_is_written_back_as_it_was_read() -> None:
    keys = PolicyKeys.model_validate(
        {"name": "web", "target": {"workloads": [{"name": "web"}]}, "gate": GATE}
    )
    policy = keys.policy("id", 1, 0, 0)
    assert policy.gate is not None
    assert policy.gate.services == (ServiceRef("shop", "web"),)
    assert policy.gate.first_bytes == "fe01"
    assert keys_of(policy) == keys


HTTP: dict[str, Any] = {
    "services": [{"namespace": "shop", "name": "web"}],
    "protocol": "http",
    "http": {
        "waiting_page": True,
        "never_wake": {
            "known": False,
            "hosts": ["*.internal.example.com"],
            "paths": ["/status", "/assets/*"],
            "agents": ["curl"],
            "requests": ["HEAD /", "OPTIONS /"],
        },
        "wake_header": {"name": "X-Wake", "value": "please"},
        "trusted_proxies": ["10.0.0.0/8"],
    },
}


@pytest.mark.parametrize(
    "gate", [HTTP, {**HTTP, "http": None}, {**HTTP, "protocol": "minecraft", "http": None}]
)
def test_rules_of_http_are_written_back_as_they_were_read(gate: dict[str, Any]) -> None:
    keys = PolicyKeys.model_validate(
        {"name": "web", "target": {"workloads": [{"name": "web"}]}, "gate": gate}
    )
    policy = keys.policy(policy_id(1), 1, 0, 0)
    assert keys_of(policy) == keys
    assert Bodies(Policy).read(policy_body(policy)) == policy


def test_a_policy_of_an_older_version_is_still_read() -> None:
    """Its gate does not know HTTP."""
    body = (
        '{"id":"00000000-0000-4000-8000-000000000001","name":"web","target":{"workloads":[],"pool":"p"},'
        '"gate":{"services":[{"namespace":"default","name":"web"}],"protocol":"tcp","hold_seconds":null,'
        '"max_held":1000,"sources":[],"first_bytes":"","least_bytes":0}}'
    )
    assert Bodies(Policy).read(body).gate == WakeOnRequest((ServiceRef("default", "web"),))


@pytest.mark.parametrize(
    ("http", "says"),
    [
        ({"never_wake": {"hosts": ["a.example.com:80"]}}, "not a host; allowed: a name such as"),
        ({"never_wake": {"paths": ["api"]}}, "no path; allowed: /exact, or /beginning"),
        ({"never_wake": {"paths": ["/a*b"]}}, "no path"),
        ({"never_wake": {"requests": ["head /"]}}, "no request; allowed: METHOD /path"),
        ({"never_wake": {"agents": ["b"]}}, "at least 2 characters"),
        ({"wake_header": {"name": "X Wake"}}, "pattern"),
        ({"trusted_proxies": ["10.0.0.1/8"]}, "no network"),
        ({"wating_page": True}, "Extra inputs"),
    ],
)
def test_what_is_wrong_with_rules_of_http_is_said(http: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        PolicyGateKeys.model_validate({**HTTP, "http": http})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"services": []}, "at least 1 item"),
        ({"http": {}}, "http rules for the protocol tcp; set protocol to http"),
        ({"protocol": "minecraft"}, "first_bytes or least_bytes for the protocol minecraft"),
        ({"services": [{"name": "web"}, {"name": "web"}]}, "names a Service twice"),
        ({"sources": ["10.0.0.1/8"]}, "no network"),
        ({"first_bytes": "xyz"}, "no bytes"),
        ({"protocol": "smtp"}, "tcp"),
    ],
)
def test_what_is_wrong_with_a_gate_is_said(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        PolicyGateKeys.model_validate({**GATE, **changes})


def test_a_range_of_ports_and_a_service_are_read() -> None:
    keys = GateKeys(service="ebbtide/gate", ports="20000-20002")
    assert (keys.service_ref, list(keys.port_range)) == (ServiceRef("ebbtide", "gate"), [20000, 20001, 20002])
    assert GateKeys().service_ref is None


@pytest.mark.parametrize("ports", ["20000", "20002-20000", "80-90", "60000-70000", "10000-40000", "a-b"])
def test_what_is_no_range_of_ports_is_refused(ports: str) -> None:
    with pytest.raises(ValidationError, match="ports"):
        GateKeys(ports=ports)


@pytest.mark.parametrize("service", ["gate", "/gate", "ebbtide/", "a/b/c"])
def test_what_is_no_service_is_refused(service: str) -> None:
    with pytest.raises(ValidationError, match="no Service"):
        GateKeys(service=service)
