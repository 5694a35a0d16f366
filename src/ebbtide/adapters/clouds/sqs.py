"""An SQS queue, filled by EventBridge rules, as the inbox of a process that runs on.

A message is deleted once every notice in it is acknowledged, or at once where there is none. Until then
it is kept here and shown again, since SQS hides what was received; should this process die, SQS shows it
to another.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.adapters.clouds.aws_errors import translated
from ebbtide.adapters.clouds.events import EventKind, read_event
from ebbtide.errors import EbbtideError
from ebbtide.model.operation import SpotNotice
from ebbtide.ports import Clock

BATCH = 10
MAX_BATCHES = 10
_log = logging.getLogger(__name__)


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
