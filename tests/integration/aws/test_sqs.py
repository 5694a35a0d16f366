"""The SQS inbox over moto's queue."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from ebbtide.adapters.clouds.aws import make_client
from ebbtide.adapters.clouds.notices import SqsInbox
from ebbtide.errors import Final
from ebbtide.model.operation import SpotKind
from ebbtide.simulator.world.clock import VirtualClock
from tests.servers import aws_events
from tests.servers.aws_events import INSTANCE
from tests.servers.moto import CREDENTIALS, environment, shared_moto

NUMBERS = count(1)
OTHER = "i-0fedcba9876543210"


class Queue:
    def __init__(self) -> None:
        moto = shared_moto()
        self.sqs = moto.client("sqs")
        name = f"notices-{next(NUMBERS)}"
        self.url = self.sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "30"})["QueueUrl"]
        self.clock = VirtualClock(int(time.time()))
        with environment(CREDENTIALS):
            self.client = make_client("sqs", endpoint=moto.url)
        self.inbox = SqsInbox(self.client, self.url, self.clock)

    def send(self, *bodies: Any) -> None:
        for body in bodies:
            text = body if isinstance(body, str) else json.dumps(body)
            self.sqs.send_message(QueueUrl=self.url, MessageBody=text)

    def left(self) -> int:
        """Messages that the queue has, also those it hides."""
        asked = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=asked)["Attributes"]
        return sum(int(found[name]) for name in asked)


@pytest.fixture
def queue() -> Iterator[Queue]:
    made = Queue()
    yield made
    made.inbox.close()


def test_a_notice_is_shown_until_it_is_acknowledged_and_then_deleted(queue: Queue) -> None:
    queue.send(aws_events.interruption(queue.clock.now()))
    (notice,) = queue.inbox.receive()
    assert queue.inbox.receive() == (notice,)
    assert (notice.instance_id, notice.kind) == (INSTANCE, SpotKind.INTERRUPTION)
    queue.inbox.acknowledge(notice)
    assert queue.inbox.receive() == ()
    assert queue.left() == 0


def test_a_process_that_died_leaves_its_notice_to_another(queue: Queue) -> None:
    queue.send(aws_events.interruption(queue.clock.now()))
    queue.inbox.receive()
    assert queue.left() == 1
    receipt = next(iter(queue.inbox._kept.values())).receipt
    queue.sqs.change_message_visibility(QueueUrl=queue.url, ReceiptHandle=receipt, VisibilityTimeout=0)
    successor = SqsInbox(queue.client, queue.url, queue.clock)
    (notice,) = successor.receive()
    successor.acknowledge(notice)
    assert queue.left() == 0


def test_the_same_notice_in_two_messages_is_shown_once_and_both_are_deleted(queue: Queue) -> None:
    event = aws_events.interruption(queue.clock.now())
    queue.send(event, event)
    (notice,) = queue.inbox.receive()
    queue.inbox.acknowledge(notice)
    assert queue.left() == 0


def test_a_message_with_two_instances_stays_until_both_are_acknowledged(queue: Queue) -> None:
    queue.send(aws_events.maintenance(queue.clock.now(), INSTANCE, OTHER))
    first, second = queue.inbox.receive()
    queue.inbox.acknowledge(first)
    assert queue.left() == 1
    assert queue.inbox.receive() == (second,)
    queue.inbox.acknowledge(second)
    assert queue.left() == 0


def test_what_gives_no_notice_is_logged_and_deleted(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    now = queue.clock.now()
    foreign = {"source": "aws.s3", "detail-type": "Object Created", "detail": {}}
    wrong = {**aws_events.interruption(now), "detail": {"instance-id": "nonsense"}}
    queue.send("no json {", foreign, wrong, aws_events.rebalance(now - 5000), aws_events.state_change(now))
    with caplog.at_level(logging.INFO, "ebbtide"):
        assert queue.inbox.receive() == ()
    assert queue.left() == 0
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert len(caplog.records) == 5
    for words in ("not a JSON object", "not for Ebbtide", "nonsense", "1 h 23 min old", "shutting-down"):
        assert words in said


def test_many_messages_are_read_in_one_look(queue: Queue) -> None:
    ids = [f"i-{number:017x}" for number in range(25)]
    queue.send(*(aws_events.rebalance(queue.clock.now(), instance_id) for instance_id in ids))
    assert sorted(notice.instance_id for notice in queue.inbox.receive()) == ids


def test_a_queue_that_is_not_there_is_said_with_the_key_to_correct(queue: Queue) -> None:
    inbox = SqsInbox(queue.client, f"{queue.url}-gone", queue.clock)
    with pytest.raises(Final, match=r"aws\.queue_url"):
        inbox.receive()
