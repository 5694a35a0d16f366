"""The OpenAPI document against the running application: whatever it allows, and much that it does not, is
sent to every route; none may fail, and every answer is one that the document names."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from ebbtide.entrypoints.api.app import make_app
from ebbtide.simulator.run.live import Live
from tests.integration.api.conftest import START, TOKENS, make_site

LIVE = Live(1, START)
APP = make_app(make_site(LIVE))
schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", APP, headers={"Host": "testserver"}).exclude(
    path="/api/v1/events"
)


@schema.parametrize()
@settings(
    max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)
def test_no_route_fails_whatever_it_is_sent(case: schemathesis.Case[Any]) -> None:
    headers = {"Authorization": f"Bearer {next(reversed(TOKENS.values()))}", "Host": "testserver"}
    response = case.call(headers=headers)
    if response.status_code == 504:
        return  # a wake that was not ready in time is an answer
    case.validate_response(
        response, checks=[not_a_server_error, content_type_conformance, response_schema_conformance]
    )
