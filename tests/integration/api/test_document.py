"""Every endpoint, field, variable and default that the design of scale-to-zero names, as it names them: other
programs rely on them."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.entrypoints.api.app import make_app
from ebbtide.model.idle import WakeReason
from ebbtide.simulator.run.live import Live
from tests.integration.api.conftest import make_site

SCALING = "/api/v1/scaling"
BODIES = {
    ("post", "/policies/{policy_id}/wake"): {"reason", "wait_for_ready"},
    ("post", "/wake"): {"policy_ids", "reason"},
}
ANSWERS = {
    ("post", "/policies/{policy_id}/wake"): {
        *("policy_id", "previous_replicas", "target_replicas", "wake_reason", "message"),
        "estimated_ready_seconds",
    },
    ("post", "/wake"): {"woken", "already_running", "policies"},
    ("get", "/policies/{policy_id}/savings"): {
        *("policy_id", "period", "total_idle_hours", "total_scaled_to_zero_hours"),
        *("estimated_savings_euros", "daily_breakdown"),
    },
    ("get", "/savings/summary"): {
        *("period", "total_idle_hours", "total_scaled_to_zero_hours"),
        *("estimated_savings_euros", "daily_breakdown"),
    },
}
ITEMS = {
    "WakeAllShape.policies": {"policy_id", "status"},
    "SavingsShape.daily_breakdown": {"date", "idle_hours", "savings_euros"},
}
VARIABLES = {
    "SCALE_TO_ZERO_IDLE_THRESHOLD": ("scale_to_zero.idle_threshold", "30m", "45m"),
    "SCALE_TO_ZERO_KEEP_ALIVE": ("scale_to_zero.keep_alive", "5m", "1m30s"),
    "SCALE_TO_ZERO_COLD_START_TIMEOUT": ("scale_to_zero.cold_start_timeout", "2m", "3m"),
    "SCALE_TO_ZERO_CHECK_INTERVAL": ("scale_to_zero.check_interval", "1m", "10s"),
    "SCALE_TO_ZERO_COST_TRACKING": ("scale_to_zero.cost_tracking", True, "false"),
}


@pytest.fixture
def described(live: Live) -> dict[str, Any]:
    return make_app(make_site(live)).openapi()


def fields(described: dict[str, Any], schema: dict[str, Any]) -> set[str]:
    """The properties of a schema, by its reference and past `or null`."""
    for part in (schema, *schema.get("anyOf", ())):
        if "$ref" in part:
            name = part["$ref"].rpartition("/")[2]
            return set(described["components"]["schemas"][name]["properties"])
    raise AssertionError(f"no object: {schema}")


@pytest.mark.parametrize(("method", "path"), BODIES)
def test_what_is_asked_has_the_fields_of_the_document_and_all_are_optional(
    described: dict[str, Any], method: str, path: str
) -> None:
    body = described["paths"][SCALING + path][method]["requestBody"]
    assert fields(described, body["content"]["application/json"]["schema"]) == BODIES[method, path]
    assert not body.get("required", False)
    for name in ("WakeBody", "WakeAllBody"):
        assert "required" not in described["components"]["schemas"][name]


@pytest.mark.parametrize(("method", "path"), ANSWERS)
def test_what_is_answered_has_the_fields_of_the_document(
    described: dict[str, Any], method: str, path: str
) -> None:
    answer = described["paths"][SCALING + path][method]["responses"]["200"]["content"]["application/json"]
    assert fields(described, answer["schema"]) >= ANSWERS[method, path]


@pytest.mark.parametrize("place", ITEMS)
def test_lists_hold_what_the_document_says(described: dict[str, Any], place: str) -> None:
    shape, _, name = place.partition(".")
    listed = described["components"]["schemas"][shape]["properties"][name]
    assert fields(described, listed["items"]) >= ITEMS[place]


def test_reasons_are_those_of_the_document() -> None:
    assert {str(reason) for reason in WakeReason} == {"manual", "scheduled", "webhook", "api_request"}


@pytest.mark.parametrize("variable", VARIABLES)
def test_every_variable_has_its_default_and_is_obeyed(variable: str) -> None:
    key, default, other = VARIABLES[variable]

    def value(environ: dict[str, str]) -> tuple[Any, str]:
        found = build_config(parse_document("{}", "ebbtide.yaml"), environ)
        (one,) = (each for each in found.effective if each.key == key)
        return one.value, one.origin

    assert value({}) == (default, "default")
    changed, origin = value({variable: other})
    assert (str(changed).lower(), origin) == (other, f"environment {variable}")
