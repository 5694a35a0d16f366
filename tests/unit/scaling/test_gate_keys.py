"""The keys of wake on request: what people write is what is kept, and what is wrong is said."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ebbtide.config.gate import GateKeys, PolicyGateKeys
from ebbtide.config.policies import PolicyKeys, keys_of
from ebbtide.model.gate import ServiceRef

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


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"services": []}, "at least 1 item"),
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
