"""Notifications out: a signed message (Standard Webhooks) for every sleep and every wake.

They are sent by a thread of their own from a queue with an end, so nobody waits for them: what does not
fit, and what failed for too long, is dropped and reported. A message has the id of its log entry, also
when it is sent again, so a receiver can tell a repeat. The log has them all; this is a courtesy.

Redirects are not followed, and `outgoing` looks at every address before it is spoken to.
"""

from __future__ import annotations

import http.client
import json
import logging
import queue
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook

from ebbtide import __version__
from ebbtide.errors import AddressRefused, ConfigError
from ebbtide.model.events import PolicyStep
from ebbtide.model.idle import Phase
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.narrate import fact_in
from ebbtide.outgoing import PORTS, checked, connected
from ebbtide.ports import Notifier

MOST_WAITING = 1000
SEND_SECONDS = 10.0
CLOSE_SECONDS = 5.0
"""How long the end of the process waits for what is still to be sent."""
WAITS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds before each further try."""
GONE = 410
_log = logging.getLogger(__name__)


class NotSent(Exception):
    """Why a message did not arrive. `final` where another try would not help."""

    def __init__(self, says: str, final: bool = False) -> None:
        super().__init__(says)
        self.final = final


@dataclass(frozen=True, slots=True)
class Message:
    id: str
    body: str


class WebhookNotifier:
    """Tells whom it is put before, and sends what is worth a message."""

    def __init__(
        self,
        inner: Notifier,
        url: str,
        secret: str,
        waits: tuple[float, ...] = WAITS,
        most: int = MOST_WAITING,
    ) -> None:
        self._inner = inner
        self._url = url
        self._waits = waits
        try:
            self._webhook = Webhook(secret)
        except (ValueError, TypeError, RuntimeError, EmptyWebhookSecretError) as error:
            raise ConfigError(
                "the first secret of api.webhook_secrets_file cannot be used to sign; nothing was touched. "
                "Write it as whsec_ and base64."
            ) from error
        self._queue: queue.Queue[Message | None] = queue.Queue(most)
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._open = 0
        """Messages that are neither sent nor dropped."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.dropped = 0

    def notify(self, entry: LogEntry) -> None:
        self._inner.notify(entry)
        kind = kind_of(entry)
        if not kind or self._stop.is_set():
            return
        message = Message(entry.id, body_of(entry, kind))
        with self._lock:
            try:
                self._queue.put_nowait(message)
            except queue.Full:
                self.dropped += 1
                _log.warning("notification %s is dropped: %d wait already", entry.id, self._queue.maxsize)
                return
            self._open += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Sends what waits, for a while; then ends."""
        until = time.monotonic() + CLOSE_SECONDS
        with self._idle:
            while self._open and (left := until - time.monotonic()) > 0:
                self._idle.wait(left)
            if self._open:
                _log.warning("%d notifications were not sent before the end", self._open)
        self._stop.set()
        with suppress(queue.Full):
            self._queue.put_nowait(None)  # so a thread that waits for more ends
        if close := getattr(self._inner, "close", None):
            close()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._queue.get()
            if message is None:
                return
            try:
                self._deliver(message)
            except Exception as error:  # whatever it is, the next message must go out
                _log.warning("notification %s is dropped: %s: %s", message.id, type(error).__name__, error)
                self.dropped += 1
            with self._idle:
                self._open -= 1
                self._idle.notify_all()

    def _deliver(self, message: Message) -> None:
        for wait in (*self._waits, None):
            try:
                self._send(message)
                return
            except NotSent as error:
                if wait is None or error.final or self._stop.wait(wait):
                    self.dropped += 1
                    _log.warning("notification %s is dropped: %s", message.id, error)
                    return

    def _send(self, message: Message) -> None:
        """Signed again for each try: receivers refuse what is old."""
        now = datetime.now(UTC)
        headers = {
            "content-type": "application/json",
            "user-agent": f"ebbtide/{__version__}",
            "webhook-id": message.id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._webhook.sign(message.id, now, message.body),
        }
        code = post(self._url, message.body.encode(), headers)
        if not 200 <= code < 300:  # noqa: PLR2004 - every code that says yes
            raise NotSent(f"the receiver answered {code}", final=code == GONE)


def kind_of(entry: LogEntry) -> str:
    """What others are notified of: that it sleeps, wakes, or is ready."""
    step = fact_in(entry, PolicyStep)
    if step is None:
        return ""
    if entry.kind is LogKind.IDLE and step.phase is Phase.ZERO:
        return "policy.asleep"
    if entry.kind is LogKind.WAKE and step.phase is Phase.WAKING:
        return "policy.waking"
    return "policy.ready" if entry.kind is LogKind.WAKE and step.seconds is not None else ""


def body_of(entry: LogEntry, kind: str) -> str:
    at = datetime.fromtimestamp(entry.at, UTC).isoformat().replace("+00:00", "Z")
    data = {"policy_id": entry.subject, "says": entry.says, **entry.data}
    return json.dumps({"type": kind, "timestamp": at, "data": data}, ensure_ascii=False, default=str)


def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    """The status; a redirect is one like any other, and not followed. `NotSent` where there is none."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)
    path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    connection = http.client.HTTPConnection(host, port, timeout=SEND_SECONDS)
    try:
        checked(url)
        connection.sock = connected(host, port, parts.scheme == "https", SEND_SECONDS)
        connection.request("POST", path, body, {**headers, "host": parts.netloc.rpartition("@")[2]})
        return connection.getresponse().status
    except AddressRefused as error:
        raise NotSent(str(error), final=True) from error
    except (OSError, http.client.HTTPException) as error:
        raise NotSent(f"{host} cannot be reached ({type(error).__name__}: {error})") from error
    finally:
        connection.close()
