"""Notifications of sleep and wake to a real HTTP server: signed, sent until they arrive, never in the way."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from ebbtide.adapters import webhooks
from ebbtide.adapters.webhooks import NotSent, WebhookNotifier, post
from ebbtide.bootstrap import open_notifier
from ebbtide.config.api import webhook_secrets
from ebbtide.config.document import Read
from ebbtide.config.load import build_config
from ebbtide.errors import ConfigError
from ebbtide.model.idle import WakeReason
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.simulator.world.ports import SimNotifier
from tests.policy_harness import PolicyHarness

SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ZERO = {"policy": "web", "phase": "zero"}
ASLEEP = LogEntry("id-1", 100, LogKind.IDLE, "policy web: is at zero", "p-1", ZERO)
WAKING = {"policy": "web", "phase": "waking"}
READY = {"policy": "web", "phase": "active", "seconds": 12}
QUICK = (0.01, 0.01, 0.01)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a message may take longer than a process waits at its end."""
    monkeypatch.setattr(webhooks, "CLOSE_SECONDS", 60.0)


@dataclass
class Receiver:
    """Answers with these codes in turn, and from then on with 204."""

    codes: list[int] = field(default_factory=list)
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
    url: str = ""


@contextmanager
def receiver(*codes: int, held: bool = False) -> Iterator[Receiver]:
    found = Receiver(list(codes))
    if not held:
        found.hold.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.asked.set()
            found.hold.wait(30)
            found.paths.append(self.path)
            found.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(found.codes.pop(0) if found.codes else 204)
            self.send_header("location", "/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}/hook?to=us"
    try:
        yield found
    finally:
        found.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()


def sent(found: Receiver) -> list[dict[str, Any]]:
    return [Webhook(SECRET).verify(body, headers) for headers, body in found.got]


def test_a_sleep_and_a_wake_are_told_with_a_signature_that_holds() -> None:
    with receiver() as found:
        harness = PolicyHarness()
        notifier = WebhookNotifier(harness.notifier, found.url, SECRET, QUICK)
        harness.scaling = harness.runner(notifier=notifier)
        harness.sleep()
        woken = harness.scaling.wake(harness.policies[0].id, WakeReason.API_REQUEST)
        harness.clock.sleep(12)
        harness.round()
        notifier.close()
    told = sent(found)
    assert [each["type"] for each in told] == ["policy.asleep", "policy.waking", "policy.ready"]
    assert {each["data"]["policy"] for each in told} == {"web"}
    assert {each["data"]["policy_id"] for each in told} == {harness.policies[0].id}
    assert (told[1]["data"]["wake_reason"], told[1]["data"]["wake_id"]) == ("api_request", woken.wake_id)
    assert told[2]["data"]["seconds"] == 12
    assert len({headers["webhook-id"] for headers, _ in found.got}) == 3


def test_what_fails_is_sent_again_with_the_same_id_until_it_arrives() -> None:
    with receiver(500, 503) as found:
        notifier = WebhookNotifier(SimNotifier(), found.url, SECRET, QUICK)
        notifier.notify(ASLEEP)
        notifier.close()
    assert [headers["webhook-id"] for headers, _ in found.got] == ["id-1"] * 3
    assert len(sent(found)) == 3
    assert notifier.dropped == 0


@pytest.mark.parametrize("code", [200, 202, 299])
def test_any_yes_ends_a_message(code: int) -> None:
    with receiver(code, 500) as found:
        notifier = WebhookNotifier(SimNotifier(), found.url, SECRET, QUICK)
        notifier.notify(ASLEEP)
        notifier.close()
    assert (len(found.got), notifier.dropped) == (1, 0)


def test_an_end_leaves_no_message_that_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "CLOSE_SECONDS", 0.0)
    with receiver(*(500,) * 9) as found:
        notifier = WebhookNotifier(SimNotifier(), found.url, SECRET, (3600.0, 3600.0))
        notifier.notify(ASLEEP)
        assert found.asked.wait(60)
        notifier.close()
        assert notifier._thread is not None
        notifier._thread.join(60)
    assert (len(found.got), notifier.dropped) == (1, 1)


@pytest.mark.parametrize(
    ("codes", "tries"), [((500,) * 9, 4), ((410,), 1), ((300,) * 9, 4), ((302,) * 9, 4), ((199,) * 9, 4)]
)
def test_what_never_arrives_is_given_up_and_a_redirect_is_not_followed(
    codes: tuple[int, ...], tries: int
) -> None:
    with receiver(*codes) as found:
        notifier = WebhookNotifier(SimNotifier(), found.url, SECRET, QUICK)
        notifier.notify(ASLEEP)
        notifier.close()
    assert (len(found.got), notifier.dropped) == (tries, 1)


def test_nobody_waits_for_a_receiver_that_hangs_and_the_queue_has_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhooks, "CLOSE_SECONDS", 0.05)
    inner = SimNotifier()
    with receiver(held=True) as found:
        notifier = WebhookNotifier(inner, found.url, SECRET, QUICK, most=2)
        for number in range(10):
            notifier.notify(LogEntry(f"id-{number}", 100, LogKind.IDLE, "", "p-1", ZERO))
        assert len(inner.entries) == 10
        assert notifier.dropped in (7, 8), "two wait, and one may be on its way"
        telling = [thread for thread in threading.enumerate() if thread.name == "webhooks"]
        assert telling, "a thread of its own"
        assert all(thread.daemon for thread in telling), "a process that fails does not wait for it either"
        notifier.close()
        notifier.notify(ASLEEP)


def test_a_message_says_what_when_and_of_whom_and_goes_where_the_url_says() -> None:
    with receiver() as found:
        notifier = WebhookNotifier(SimNotifier(), found.url, SECRET, QUICK)
        notifier.notify(ASLEEP)
        notifier.close()
    ((headers, body),) = found.got
    assert json.loads(body) == {
        "type": "policy.asleep",
        "timestamp": "1970-01-01T00:01:40Z",
        "data": {"policy_id": "p-1", "says": "policy web: is at zero", **ZERO},
    }
    assert found.paths == ["/hook?to=us"]
    assert headers["host"] == found.url.split("/")[2]
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"].startswith("ebbtide/")


class Closed(SimNotifier):
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_after_its_end_nothing_is_sent_any_more_and_the_next_notifier_has_ended_too() -> None:
    inner = Closed()
    with receiver() as found:
        notifier = WebhookNotifier(inner, found.url, SECRET, QUICK)
        notifier.close()
        notifier.notify(ASLEEP)
        notifier.close()
    assert (found.got, notifier.dropped) == ([], 0)
    assert inner.closed == 2
    assert [entry.id for entry in inner.entries] == ["id-1"], "the log and the terminal still have it"


def test_a_bug_in_one_message_does_not_hold_up_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    sends = post

    def broken(url: str, body: bytes, headers: dict[str, str]) -> int:
        if headers["webhook-id"] == "id-1":
            raise RuntimeError("a bug")
        return sends(url, body, headers)

    monkeypatch.setattr(webhooks, "post", broken)
    with receiver() as found:
        notifier = WebhookNotifier(SimNotifier(), found.url, SECRET, QUICK)
        notifier.notify(ASLEEP)
        notifier.notify(replace(ASLEEP, id="id-2"))
        notifier.close()
    assert [headers["webhook-id"] for headers, _ in found.got] == ["id-2"]
    assert notifier.dropped == 1


def test_a_secret_that_cannot_sign_is_refused_at_the_start() -> None:
    for secret in ("", "whsec_", "whsec_not base64!"):
        with pytest.raises(ConfigError, match="cannot be used to sign; nothing was touched"):
            WebhookNotifier(SimNotifier(), "http://127.0.0.1:1/", secret, QUICK)


def test_only_sleep_and_wake_are_told() -> None:
    with receiver() as found:
        notifier = WebhookNotifier(SimNotifier(), found.url, SECRET, QUICK)
        notifier.notify(LogEntry("id-2", 100, LogKind.ALARM, "help"))
        notifier.notify(
            LogEntry("id-3", 100, LogKind.IDLE, "idle", "p-1", {"policy": "web", "phase": "idle"})
        )
        notifier.notify(
            LogEntry("id-4", 100, LogKind.WAKE, "woken", "p-1", {"policy": "web", "phase": "active"})
        )
        for kind, told in ((LogKind.WAKE, ZERO), (LogKind.IDLE, WAKING), (LogKind.IDLE, READY)):
            notifier.notify(LogEntry(f"id-{told}", 100, kind, "of another kind", "p-1", told))
        notifier.close()
    assert found.got == []


def test_a_message_to_a_metadata_address_is_never_sent() -> None:
    for url in ("http://169.254.169.254/latest", "http://[fd00:ec2::254]/", "https://169.254.1.1/"):
        with pytest.raises(NotSent, match="never spoken to") as refused:
            post(url, b"{}", {})
        assert refused.value.final
    with pytest.raises(NotSent, match="cannot be reached"):
        post("http://127.0.0.1:1/", b"{}", {})


def test_a_notifier_needs_a_secret(tmp_path: Any) -> None:
    url = {"API_NOTIFY_URL": "http://127.0.0.1:1/"}
    with pytest.raises(
        ConfigError, match=r"notifications are signed, and api\.webhook_secrets_file is empty"
    ):
        build_config(Read(), url)
    secrets = tmp_path / "secrets"
    config = build_config(Read(), {**url, "API_WEBHOOK_SECRETS_FILE": str(secrets)})
    for text, why in (
        (None, "cannot be read"),
        ("\n", "no secret"),
        ("whsec_\n", "line 1 of .* is not a secret"),
    ):
        if text is not None:
            secrets.write_text(text)
        with pytest.raises(ConfigError, match=why):
            open_notifier(config)
    secrets.write_text(f"{SECRET}\nwhsec_b2xk\n")
    assert isinstance(open_notifier(config), WebhookNotifier)
    assert json.loads(webhooks.body_of(ASLEEP, "policy.asleep"))["timestamp"] == "1970-01-01T00:01:40Z"


@pytest.mark.parametrize("line", ["whsec_", "whsec_*", "# the old one", "not base 64", "whsec_A", "=="])
def test_a_line_that_is_not_a_secret_is_refused_at_the_start_by_its_number(tmp_path: Any, line: str) -> None:
    path = tmp_path / "secrets"
    path.write_text(f"{SECRET}\n\n{line}\n")
    with pytest.raises(ConfigError, match=r"line 3 of .* is not a secret"):
        webhook_secrets(str(path))


def test_secrets_are_taken_with_and_without_prefix_and_padding(tmp_path: Any) -> None:
    path = tmp_path / "secrets"
    plain = SECRET.removeprefix("whsec_")
    path.write_text(f"{SECRET}\n{plain}\nd2hhdA\nd2hhdA==\n")
    assert webhook_secrets(str(path)) == (SECRET, plain, "d2hhdA", "d2hhdA==")


def test_a_message_has_the_name_of_its_receiver_and_nothing_of_our_own_making() -> None:
    with receiver() as found:
        url = found.url.replace("http://", "http://somebody@")
        assert post(url, b"{}", {"x-ours": "1"}) == 204
    ((headers, _),) = found.got
    assert headers["host"] == found.url.split("/")[2]
    assert set(headers) == {"host", "x-ours", "accept-encoding", "content-length"}


def test_the_receiver_is_named_as_its_url_names_it_also_where_the_port_is_that_of_https(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with receiver() as found:
        port = int(found.url.rpartition(":")[2].partition("/")[0])

        def connect(*_: Any) -> socket.socket:
            return socket.create_connection(("127.0.0.1", port), 30)

        monkeypatch.setattr(webhooks, "connected", connect)
        assert post("https://hooks.example.com/x", b"{}", {}) == 204
    ((headers, _),) = found.got
    assert headers["host"] == "hooks.example.com"


@pytest.mark.parametrize("held", [True, False])
def test_an_end_says_what_was_not_sent_and_nothing_where_all_was(
    held: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if held:
        monkeypatch.setattr(webhooks, "CLOSE_SECONDS", 0.0)
    with receiver(held=held) as found:
        notifier = WebhookNotifier(SimNotifier(), found.url, SECRET, QUICK)
        notifier.notify(ASLEEP)
        notifier.close()
        said = [record.getMessage() for record in caplog.records]
        found.hold.set()
        assert notifier._thread is not None
        notifier._thread.join(60)
    assert said == (["1 notifications were not sent before the end"] if held else [])


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://hooks.example.com/x", ("hooks.example.com", 80, False)),
        ("https://hooks.example.com", ("hooks.example.com", 443, True)),
        ("https://hooks.example.com:8443/x", ("hooks.example.com", 8443, True)),
    ],
)
def test_a_url_without_a_port_has_that_of_its_scheme(
    url: str, expected: tuple[str, int, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """These ports are not ours to listen on."""
    asked: list[tuple[str, int, bool]] = []

    def connect(host: str, port: int, encrypted: bool, seconds: float) -> Any:
        asked.append((host, port, encrypted))
        raise OSError("nobody is there")

    monkeypatch.setattr(webhooks, "connected", connect)
    with pytest.raises(NotSent, match="cannot be reached"):
        post(url, b"{}", {})
    assert asked == [expected]


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "http:///x", "gopher://hooks.example.com"])
def test_what_is_no_address_of_http_is_given_up_at_once(url: str) -> None:
    with pytest.raises(NotSent, match="nothing was sent") as refused:
        post(url, b"{}", {})
    assert refused.value.final


def test_what_comes_after_the_end_is_not_waited_for_by_another_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with receiver() as found:
        notifier = WebhookNotifier(SimNotifier(), found.url, SECRET, QUICK)
        notifier.notify(ASLEEP)
        notifier.close()
        monkeypatch.setattr(webhooks, "CLOSE_SECONDS", 0.0)
        notifier.notify(replace(ASLEEP, id="id-2"))
        notifier.close()
    assert [record.getMessage() for record in caplog.records] == []
    assert len(found.got) == 1
