"""Every parser of data from outside, as a function of bytes. What it may raise is an error of Ebbtide, which
says what is wrong; anything else that comes out of a target is a finding.

Which parser a target drives is its name: `fuzz_dump` reads what `ebbtide assess` is given, and so on.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from standardwebhooks.webhooks import Webhook

from ebbtide.adapters.clouds.notices import SqsInbox, read_event
from ebbtide.adapters.kube.connection import read_status
from ebbtide.adapters.kube.dump import read_dump
from ebbtide.adapters.prometheus import usage
from ebbtide.adapters.prometheus.asking import Unknown, number, read_answer
from ebbtide.adapters.stores.codec.policies import Bodies
from ebbtide.adapters.stores.codec.record import from_item, unpack
from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config, read_policies
from ebbtide.config.prices import read_price_file
from ebbtide.engine.journal import read_decision, read_inputs
from ebbtide.entrypoints.pack import read_items, read_types
from ebbtide.errors import EbbtideError
from ebbtide.gate.admission import Heard
from ebbtide.gate.held import HEAD_BYTES
from ebbtide.gate.keeper import JUDGES
from ebbtide.gate.minecraft import kick_with, talk_status
from ebbtide.model.idle import IdleState
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.policy import GateProtocol, HttpRules, Policy, WakeOnRequest
from ebbtide.simulator.run.live import Live
from ebbtide.simulator.run.persistent import load as load_world
from ebbtide.simulator.story import parse_story
from ebbtide.simulator.world.clock import VirtualClock
from tests.integration.api.conftest import SECRET, START, client_of, make_site

NOW = 1_800_000_000
NODES = ("w1", "w2")


def fuzz_dump(data: bytes) -> None:
    with suppress(EbbtideError):
        read_dump(data)


def fuzz_event(data: bytes) -> None:
    """Malformed ones are not even an error: they would come again and again."""
    with suppress(ValueError, RecursionError):  # of `json` itself, as Lambda would meet it before us
        event = json.loads(data)
        read_event(event, NOW)


class _Queue:
    def delete_message(self, **_: Any) -> None:
        """Always there."""


def fuzz_queue(data: bytes) -> None:
    inbox = SqsInbox(_Queue(), "queue", VirtualClock(NOW))
    inbox._take("id", "receipt", data.decode(errors="replace"))


def fuzz_prometheus(data: bytes) -> None:
    with suppress(Unknown):
        samples = read_answer(200, data)
        for sample in samples:
            with suppress(Unknown):
                number(sample.value[1], "a node")
        for read in (usage._read_default, usage._read_own):
            with suppress(Unknown):
                read(samples, NODES, NOW, usage.MAX_AGE_SECONDS)


def fuzz_kubernetes_status(data: bytes) -> None:
    read_status(data)


def fuzz_configuration(data: bytes) -> None:
    with suppress(EbbtideError):
        build_config(parse_document(data.decode(errors="replace"), "ebbtide.yaml"), {})


def fuzz_policies(data: bytes) -> None:
    with suppress(EbbtideError):
        for keys in read_policies([("policy.yaml", data.decode(errors="replace"))], ()):
            keys.policy("id", 0, NOW, NOW)


def fuzz_story(data: bytes) -> None:
    with suppress(EbbtideError):
        parse_story(data.decode(errors="replace"))


def fuzz_record(data: bytes) -> None:
    item = _object(data)
    if item is not None:
        with suppress(EbbtideError):
            from_item(item, "cluster")


def fuzz_log_data(data: bytes) -> None:
    with suppress(EbbtideError):
        unpack(data, "id")


def fuzz_decision(data: bytes) -> None:
    found = _object(data)
    if found is not None:
        entry = LogEntry("id", NOW, LogKind.DECISION, "", "id", found)
        with suppress(EbbtideError):
            read_decision(entry)
        with suppress(EbbtideError):
            read_inputs(entry)


def fuzz_stored_policy(data: bytes) -> None:
    text = data.decode(errors="replace")
    for kind in (Policy, IdleState):
        with suppress(EbbtideError):
            Bodies(kind).read(text)


def fuzz_prices(data: bytes) -> None:
    with suppress(EbbtideError):
        read_price_file(_file(data))


def fuzz_pack(data: bytes) -> None:
    for read in (read_items, read_types):
        with suppress(EbbtideError):
            read(_file(data))


def fuzz_world(data: bytes) -> None:
    with suppress(EbbtideError):
        load_world(_file(data))


def fuzz_webhook(data: bytes) -> None:
    """Signed, so what is read is the body."""
    now = datetime.now(UTC)
    signature = Webhook(SECRET).sign("id", now, data.decode(errors="replace"))
    headers = {"webhook-id": "id", "webhook-timestamp": str(int(now.timestamp()))}
    _refused(
        _client().post(
            "/api/v1/scaling/webhooks/wake",
            content=data.decode(errors="replace").encode(),
            headers={**headers, "webhook-signature": signature},
        )
    )


def fuzz_api(data: bytes) -> None:
    """The first byte chooses the route, the rest is the body."""
    routes = (
        ("POST", "/api/v1/scaling/policies"),
        ("PUT", "/api/v1/pause"),
        ("POST", "/api/v1/scaling/wake-all"),
        ("POST", "/api/v1/scaling/policies/none/wake"),
    )
    method, path = routes[(data[0] if data else 0) % len(routes)]
    _refused(_client().request(method, path, content=data[1:], headers={"content-type": "application/json"}))


def fuzz_gate(data: bytes) -> None:
    """The first bytes of a connection: a judge always decides once nothing more is read."""
    for protocol in GateProtocol:
        judge, gate = (
            JUDGES[protocol],
            WakeOnRequest((), protocol=protocol, http=HttpRules(waiting_page=True)),
        )
        for whole in (False, True):
            verdict = judge(gate, Heard(data[:HEAD_BYTES], whole, "192.0.2.1", "web"))
            assert verdict is not None or not whole
    talk_status("asleep", data)
    kick_with(data, "asleep", 1)


def _refused(answer: Any) -> None:
    code = answer.status_code
    assert code < 500, f"{code}: {answer.text[:300]}"


def _object(data: bytes) -> dict[str, Any] | None:
    """As a store gives it: JSON that the database has already read."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="ebb-fuzz-"))


def _file(data: bytes) -> Path:
    path = _folder() / "input"
    path.write_bytes(data)
    return path


@cache
def _client() -> TestClient:
    logging.disable(logging.CRITICAL)
    return client_of(make_site(Live(1, START)))


TARGETS: dict[str, Callable[[bytes], None]] = {
    name.removeprefix("fuzz_"): target
    for name, target in sorted(globals().items())
    if name.startswith("fuzz_")
}
