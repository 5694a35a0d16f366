"""Spot notices: events in the shape EventBridge gives them, and the inboxes that they come from, an SQS
queue or what was handed over to this process.

An event that is foreign, malformed or too old gives no notice, and says why: it is never an error, since
it would come again and again. A message is deleted from the queue once every notice in it is
acknowledged, or at once where there is none. Until then it is kept here and shown again, since SQS hides
what was received; should this process die, SQS shows it to another.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

from ebbtide.adapters.clouds.aws_errors import translated
from ebbtide.core.words import a_while
from ebbtide.errors import EbbtideError
from ebbtide.model.operation import SpotKind, SpotNotice
from ebbtide.ports import Clock, Inbox

INTERRUPTION_SECONDS = 120
"""What EC2 leaves between its warning and the interruption."""
STALE_SECONDS = 900
"""An older event says nothing about now: the next look at the cloud knows more."""
INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")
BATCH = 10
MAX_BATCHES = 10
_log = logging.getLogger(__name__)


class EventKind(StrEnum):
    SCHEDULE = "schedule"
    INTERRUPTION = "spot interruption"
    REBALANCE = "rebalance recommendation"
    STATE_CHANGE = "instance state change"
    MAINTENANCE = "scheduled maintenance"
    FOREIGN = "foreign"
    MALFORMED = "malformed"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class Event:
    kind: EventKind
    notices: tuple[SpotNotice, ...] = ()
    says: str = ""
    """Why there is no notice in it, where one might have been expected."""

    @property
    def calls_for_a_tick(self) -> bool:
        return self.kind not in (EventKind.FOREIGN, EventKind.MALFORMED, EventKind.STALE)


_KINDS = {
    ("aws.events", "Scheduled Event"): EventKind.SCHEDULE,
    ("aws.scheduler", "Scheduled Event"): EventKind.SCHEDULE,
    ("aws.ec2", "EC2 Spot Instance Interruption Warning"): EventKind.INTERRUPTION,
    ("aws.ec2", "EC2 Instance Rebalance Recommendation"): EventKind.REBALANCE,
    ("aws.ec2", "EC2 Instance State-change Notification"): EventKind.STATE_CHANGE,
    ("aws.health", "AWS Health Event"): EventKind.MAINTENANCE,
}


def read_event(raw: object, now: float) -> Event:
    if not isinstance(raw, Mapping):
        return Event(EventKind.MALFORMED, says="the event is not a JSON object")
    name = (str(raw.get("source")), str(raw.get("detail-type")))
    kind = _KINDS.get(name)
    if kind is None:
        return Event(EventKind.FOREIGN, says=f"{name[1]!r} of {name[0]!r} is not for Ebbtide")
    if kind is EventKind.SCHEDULE:
        return Event(kind)
    try:
        at = int(min(_moment(raw["time"]), now))  # a stamp from the future is taken for now
        detail = raw["detail"]
        return _read(kind, detail, at, now)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        return Event(EventKind.MALFORMED, says=f"{kind} cannot be read ({type(error).__name__}: {error})")


def _read(kind: EventKind, detail: Mapping[str, Any], at: int, now: float) -> Event:
    if kind is EventKind.MAINTENANCE:
        return _maintenance(detail, at, int(now))
    if now - at > STALE_SECONDS:
        old, limit = a_while(int(now - at)), a_while(STALE_SECONDS)
        return Event(EventKind.STALE, says=f"{kind} is {old} old, more than {limit}")
    match kind:
        case EventKind.INTERRUPTION:
            instance_id = _instance_id(detail["instance-id"])
            notice = SpotNotice(instance_id, SpotKind.INTERRUPTION, at, at + INTERRUPTION_SECONDS)
            return Event(kind, (notice,))
        case EventKind.REBALANCE:
            instance_id = _instance_id(detail["instance-id"])
            return Event(kind, (SpotNotice(instance_id, SpotKind.REBALANCE, at, at + STALE_SECONDS),))
        case _:
            says = f"{_instance_id(detail['instance-id'])} is {detail['state']}: the cloud is looked at"
            return Event(kind, says=says)


def _maintenance(detail: Mapping[str, Any], at: int, now: int) -> Event:
    """The instance is still well, so it is treated as a recommendation: its replacement comes first.

    It is announced days ahead, so the event is not too old before its time has come: whenever it is
    read until then, it is news.
    """
    wanted = (detail["service"], detail["eventTypeCategory"]) == ("EC2", "scheduledChange")
    if not wanted or detail.get("statusCode") == "closed":
        return Event(EventKind.FOREIGN, says=f"{detail['eventTypeCode']} announces no change to an instance")
    starts = int(_moment(detail["startTime"])) if detail.get("startTime") else at + STALE_SECONDS
    if now >= max(starts, at + STALE_SECONDS):
        return Event(EventKind.STALE, says=f"maintenance began {a_while(now - starts)} ago")
    ids = [entity["entityValue"] for entity in _entities(detail)]
    ours = sorted({value for value in ids if INSTANCE_ID.fullmatch(value)})
    notices = tuple(SpotNotice(value, SpotKind.REBALANCE, now, max(starts, now)) for value in ours)
    return Event(EventKind.MAINTENANCE, notices, "" if notices else "no instance is named")


def _entities(detail: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found = detail.get("affectedEntities") or ()
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise TypeError("affectedEntities is not a list")
    return found


def _instance_id(value: object) -> str:
    if not isinstance(value, str) or not INSTANCE_ID.fullmatch(value):
        raise ValueError(f"{value!r} is not an instance id")
    return value


def _moment(text: object) -> float:
    """ISO 8601 as EventBridge writes it, or the mail format that AWS Health uses inside."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is not a time")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = parsedate_to_datetime(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


class HandedInbox:
    def __init__(self, notices: Iterable[SpotNotice] = (), behind: Inbox | None = None) -> None:
        self._notices = list(notices)
        self._behind = behind

    @property
    def waiting(self) -> tuple[SpotNotice, ...]:
        """Those handed over that were not taken in yet."""
        return tuple(self._notices)

    def receive(self) -> Sequence[SpotNotice]:
        further = self._behind.receive() if self._behind is not None else ()
        return (*self._notices, *further)

    def acknowledge(self, notice: SpotNotice) -> None:
        if notice in self._notices:
            self._notices.remove(notice)
        elif self._behind is not None:
            self._behind.acknowledge(notice)


@dataclass(slots=True)
class _Message:
    receipt: str
    waiting: list[SpotNotice]


class SqsInbox:
    def __init__(self, client: Any, queue_url: str, clock: Clock) -> None:
        self._client = client
        self._queue_url = queue_url
        self._clock = clock
        self._kept: dict[str, _Message] = {}

    def receive(self) -> Sequence[SpotNotice]:
        for _ in range(MAX_BATCHES):
            with translated(f"reading the queue {self._queue_url}"):
                answer = self._client.receive_message(
                    QueueUrl=self._queue_url, MaxNumberOfMessages=BATCH, WaitTimeSeconds=0
                )
            messages = answer.get("Messages", ())
            for message in messages:
                self._take(message["MessageId"], message["ReceiptHandle"], message.get("Body", ""))
            if len(messages) < BATCH:
                break
        notices = (notice for message in self._kept.values() for notice in message.waiting)
        return tuple(dict.fromkeys(notices))

    def acknowledge(self, notice: SpotNotice) -> None:
        for name, message in list(self._kept.items()):
            message.waiting = [other for other in message.waiting if other != notice]
            if not message.waiting:
                self._delete(message.receipt)
                del self._kept[name]

    def close(self) -> None:
        self._client.close()

    def _take(self, name: str, receipt: str, body: str) -> None:
        if name in self._kept:
            self._kept[name].receipt = receipt  # shown again: only the newest receipt deletes it
            return
        try:
            raw = json.loads(body)
        except (ValueError, RecursionError):
            raw = body
        event = read_event(raw, self._clock.now())
        if event.notices:
            self._kept[name] = _Message(receipt, list(event.notices))
            return
        level = logging.INFO if event.kind is EventKind.STATE_CHANGE else logging.WARNING
        _log.log(level, "message %s dropped: %s", name, event.says or event.kind)
        self._delete(receipt)

    def _delete(self, receipt: str) -> None:
        """What is not deleted comes again and is then known already, so a failure here is no matter."""
        try:
            with translated(f"deleting from the queue {self._queue_url}"):
                self._client.delete_message(QueueUrl=self._queue_url, ReceiptHandle=receipt)
        except EbbtideError as error:
            _log.warning("%s", error)


def count_messages(client: Any, queue_url: str) -> int:
    """About how many messages wait. Hides none of them from receivers."""
    name = "ApproximateNumberOfMessages"
    with translated(f"looking at the queue {queue_url}"):
        found = client.get_queue_attributes(QueueUrl=queue_url, AttributeNames=[name])["Attributes"]
    return int(found.get(name, 0))
