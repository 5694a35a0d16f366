"""Events of EventBridge, read into notices."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.adapters.clouds.notices import EventKind, read_event
from ebbtide.model.operation import SpotKind, SpotNotice
from tests.servers import aws_events
from tests.servers.aws_events import INSTANCE

NOW = 1_800_000_000
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def test_an_interruption_leaves_two_minutes() -> None:
    event = read_event(aws_events.interruption(NOW - 5), NOW)
    assert event.notices == (SpotNotice(INSTANCE, SpotKind.INTERRUPTION, NOW - 5, NOW + 115),)


def test_a_rebalance_recommendation_is_a_recommendation() -> None:
    (notice,) = read_event(aws_events.rebalance(NOW), NOW).notices
    assert (notice.instance_id, notice.kind, notice.noticed_at) == (INSTANCE, SpotKind.REBALANCE, NOW)


def test_maintenance_is_a_recommendation_for_every_instance_it_names() -> None:
    other = "i-0fedcba9876543210"
    event = read_event(aws_events.maintenance(NOW, INSTANCE, other, "vol-1"), NOW)
    assert [notice.instance_id for notice in event.notices] == [other, INSTANCE]
    assert {notice.kind for notice in event.notices} == {SpotKind.REBALANCE}
    assert event.notices[0].deadline == NOW + 7 * 86_400


def test_maintenance_that_is_over_or_no_change_gives_no_notice() -> None:
    closed = aws_events.maintenance(NOW)
    closed["detail"]["statusCode"] = "closed"
    assert read_event(closed, NOW).notices == ()
    issue = aws_events.maintenance(NOW)
    issue["detail"]["eventTypeCategory"] = "issue"
    assert read_event(issue, NOW).kind is EventKind.FOREIGN


def test_a_state_change_calls_for_a_tick_without_a_notice() -> None:
    event = read_event(aws_events.state_change(NOW), NOW)
    assert event.notices == ()
    assert event.calls_for_a_tick


def test_a_schedule_calls_for_a_tick() -> None:
    assert read_event(aws_events.schedule(NOW - 9000), NOW).calls_for_a_tick


def test_maintenance_is_news_until_it_begins_however_late_it_is_read() -> None:
    event = aws_events.maintenance(NOW - 6 * 86_400)
    (notice,) = read_event(event, NOW).notices
    assert (notice.noticed_at, notice.deadline) == (NOW, NOW + 86_400)
    late = read_event(event, NOW + 86_400)
    assert (late.kind, late.notices, late.says) == (EventKind.STALE, (), "maintenance began 0 s ago")


@pytest.mark.parametrize("make", [aws_events.interruption, aws_events.rebalance])
def test_what_is_too_old_is_dropped(make: Any) -> None:
    event = read_event(make(NOW - 901), NOW)
    assert (event.kind, event.notices, event.calls_for_a_tick) == (EventKind.STALE, (), False)


def test_a_stamp_from_the_future_is_taken_for_now() -> None:
    (notice,) = read_event(aws_events.interruption(NOW + 3600), NOW).notices
    assert (notice.noticed_at, notice.deadline) == (NOW, NOW + 120)


@pytest.mark.parametrize("wrong", [None, 7, "i-", "i-XYZ", "i-1234567890abcdef0; rm", {}, []])
def test_a_wrong_instance_id_is_malformed(wrong: object) -> None:
    event = aws_events.interruption(NOW)
    event["detail"]["instance-id"] = wrong
    assert read_event(event, NOW).kind is EventKind.MALFORMED


@given(ANY_JSON)
def test_whatever_arrives_is_read_without_an_error(raw: object) -> None:
    assert read_event(raw, NOW).notices == ()


@given(
    st.sampled_from(["interruption", "rebalance", "state_change", "maintenance"]),
    st.sampled_from(["time", "detail"]),
    ANY_JSON,
)
def test_a_known_event_with_a_damaged_part_is_never_an_error(name: str, part: str, damage: object) -> None:
    event = {**getattr(aws_events, name)(NOW), part: damage}
    read_event(event, NOW)
