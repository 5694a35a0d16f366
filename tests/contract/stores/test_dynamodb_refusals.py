"""A DynamoDB that cannot be used is refused in one sentence with the next step; a busy one is waited for."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ebbtide.adapters.stores.dynamodb.store import DynamoStore
from ebbtide.adapters.stores.dynamodb.tables import check_tables, create_tables, make_client, parse_tables
from ebbtide.adapters.stores.guards import ATTEMPTS, ATTEMPTS_WHEN_THROTTLED
from ebbtide.errors import EbbtideError, Retryable, StoreCause, Throttled, Unanswered
from ebbtide.model.record import CLUSTER_LEASE, Record
from tests.contract.stores.examples import make_entry
from tests.contract.stores.lab import DynamoLab, StillClock, cause_of
from tests.servers.dynamodb import DynamoServer, free_port


def open_store(url: str) -> DynamoStore:
    return DynamoStore.open(url, StillClock())


def refused_as(kind: type[EbbtideError], attempt: Callable[[], object]) -> None:
    with pytest.raises(kind) as refused:
        attempt()
    assert "\n" not in str(refused.value)


@contextmanager
def answering(status: int, code: str) -> Iterator[tuple[str, list[str]]]:
    """A server that says the same to every call: its address, and the calls it got."""
    calls: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            calls.append(self.headers["X-Amz-Target"].rpartition(".")[2])
            body = json.dumps(
                {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "no"}
            ).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"dynamodb://s/l?region=eu-central-1&endpoint=http://127.0.0.1:{server.server_port}", calls
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def unchecked(url: str) -> DynamoStore:
    tables = parse_tables(url)
    return DynamoStore(make_client(tables), tables, StillClock())


def test_missing_tables_ask_for_create(dynamodb: DynamoServer) -> None:
    url = dynamodb.url("nowhere-state", "nowhere-logs")
    for attempt in (open_store, check_tables):
        assert cause_of(partial(attempt, url)) is StoreCause.NOT_MADE


def test_creating_twice_changes_nothing(dynamodb: DynamoServer) -> None:
    url = dynamodb.url("twice-state", "twice-logs")
    assert create_tables(url).endswith("was made")
    assert create_tables(url).endswith("was there already")
    assert check_tables(url).endswith("is ready")


def test_created_tables_are_billed_on_demand_and_expire(dynamodb: DynamoServer) -> None:
    url = dynamodb.url("made-state", "made-logs")
    create_tables(url)
    client = make_client(parse_tables(url))
    for table in ("made-state", "made-logs"):
        assert client.describe_table(TableName=table)["Table"]["BillingModeSummary"]["BillingMode"] == (
            "PAY_PER_REQUEST"
        )
        expiry = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
        assert expiry == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expiresEpoch"}
    client.close()


def test_a_table_with_other_keys_is_refused(dynamodb: DynamoServer) -> None:
    create_tables(dynamodb.url("swap-state", "swap-logs"))
    assert cause_of(lambda: open_store(dynamodb.url("swap-logs", "swap-state"))) is StoreCause.FOREIGN


@pytest.mark.parametrize(
    "code", ["AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException"]
)
def test_missing_rights_are_said(dynamodb: DynamoServer, code: str) -> None:
    with answering(400, code) as (url, _):
        assert cause_of(lambda: open_store(url)) is StoreCause.NO_RIGHTS


@pytest.mark.parametrize("code", ["ThrottlingException", "ProvisionedThroughputExceededException"])
def test_throttling_is_waited_for_a_bounded_number_of_times(dynamodb: DynamoServer, code: str) -> None:
    with answering(400, code) as (url, calls):
        store = unchecked(url)
        refused_as(Throttled, lambda: store.acquire(CLUSTER_LEASE, "a", 30))
        assert calls == ["UpdateItem"] * ATTEMPTS_WHEN_THROTTLED
        store.close()


def test_a_server_error_leaves_a_write_unanswered(dynamodb: DynamoServer) -> None:
    with answering(500, "InternalServerError") as (url, calls):
        store = unchecked(url)
        refused_as(Unanswered, lambda: store.write(Record(), None, [make_entry("1")]))
        assert calls == ["TransactWriteItems"] * ATTEMPTS
        store.close()


def test_a_server_that_is_not_there_may_be_there_later(dynamodb: DynamoServer) -> None:
    url = f"dynamodb://s/l?region=eu-central-1&endpoint=http://127.0.0.1:{free_port()}"
    refused_as(Retryable, lambda: open_store(url))


@pytest.mark.parametrize("url", ["dynamodb://s/l?table=x", "dynamo://s", "dynamodb://s/l?endpoint=nonsense"])
def test_a_url_that_is_not_understood_is_refused(dynamodb: DynamoServer, url: str) -> None:
    assert cause_of(lambda: open_store(url)) is StoreCause.BAD_URL


def test_no_region_and_no_credentials_are_said(
    dynamodb: DynamoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    assert cause_of(lambda: open_store("dynamodb://s/l")) is StoreCause.NO_REGION
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert cause_of(lambda: open_store(dynamodb.url("s", "l"))) is StoreCause.NO_CREDENTIALS


def test_tables_are_named_by_the_url_the_environment_or_the_defaults() -> None:
    environ = {"STATE_TABLE": "env-state", "LOGS_TABLE": "env-logs"}
    named = [parse_tables(url, environ) for url in ("dynamodb://a/b", "dynamodb://a", "dynamodb://")]
    assert [(tables.state, tables.logs) for tables in named] == [
        ("a", "b"),
        ("a", "env-logs"),
        ("env-state", "env-logs"),
    ]
    assert parse_tables("dynamodb://", {}).state == "k3s-autoscaler-state"


def test_entries_left_in_the_outbox_by_a_crash_reach_the_log_at_the_next_load(
    dynamodb_lab: DynamoLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashing = dynamodb_lab.open("outbox")
    assert isinstance(crashing, DynamoStore)

    class Crash(BaseException):
        pass

    def crash(*_: object) -> None:
        raise Crash

    monkeypatch.setattr(crashing, "_flush", crash)
    entries = [make_entry(f"{number:03d}", text="x" * 50) for number in range(120)]
    with pytest.raises(Crash):
        crashing.write(crashing.load(), None, entries)
    crashing.close()
    next_one = dynamodb_lab.open("outbox")
    assert next_one.load().rev == 1
    assert list(next_one.read_log(limit=500)) == entries[::-1]
    assert next_one.write(next_one.load(), None, [make_entry(f"{n:03d}") for n in range(200, 320)]).rev == 2
    assert len(next_one.read_log(limit=500)) == 240
    next_one.close()


def test_an_answer_that_is_cut_within_its_headers_is_none(dynamodb: DynamoServer) -> None:
    """Without a body it would read as: there is no such record, no such table."""
    listener = socket.create_server(("127.0.0.1", 0))

    def cut() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client:
                    client.recv(65536)
                    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nServ")

    thread = threading.Thread(target=cut, daemon=True)
    thread.start()
    url = f"dynamodb://s/l?region=eu-central-1&endpoint=http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        refused_as(Unanswered, lambda: open_store(url))
        refused_as(Unanswered, unchecked(url).load)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
