"""A time that notes until when what was asked of it stays the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from math import inf
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine.moment import MARK, Moment

NOW = 1_000
times = st.integers(900, 1_100)
QUESTIONS: tuple[Callable[[Any, Any, Any], bool], ...] = (
    lambda now, since, limit: now - since >= limit,
    lambda now, since, limit: now - since > limit,
    lambda now, since, limit: since - now < limit,
    lambda now, since, limit: since + limit <= now,
    lambda now, since, limit: now + limit == since,
    lambda now, since, limit: now != since + limit,
    lambda now, since, limit: bool(now - since),
    lambda now, since, limit: min(since, now) == since and max(0, now - limit) < since,
    lambda now, since, limit: limit - (now - since) > 0 and now - since < limit / 2,
    lambda now, since, limit: (now - 5) - (now - since) > limit,
)


@given(st.sampled_from(QUESTIONS), times, times)
def test_an_answer_stays_the_same_until_the_moment_says(
    asks: Callable[[Any, Any, Any], bool], since: int, limit: int
) -> None:
    moment = Moment(NOW)
    answer = asks(moment, since, limit)
    assert answer == asks(NOW, since, limit)
    last = min(moment.holds_until, NOW + 3_000.0)
    assert all(asks(later, since, limit) == answer for later in range(NOW, int(last)))


def test_a_question_that_time_cannot_answer_otherwise_holds_for_ever() -> None:
    moment = Moment(NOW)
    assert moment >= 900
    assert moment < inf
    assert moment - 10 < moment
    assert moment.holds_until == inf


def test_a_text_made_of_it_is_marked() -> None:
    moment = Moment(NOW)
    assert f"{moment - 900:d} s" == f"{MARK}100 s"
    assert str(1_010 - moment) == f"{MARK}10"
    assert moment.holds_until == inf


@pytest.mark.parametrize(
    "use",
    [
        lambda moment: datetime.fromtimestamp(moment, UTC),
        lambda moment: {moment: 1},
        lambda moment: moment // 60,
        lambda moment: moment * 2,
        lambda moment: moment + 0.5,
        lambda moment: moment - 0.5,
        lambda moment: 0.5 - moment,
        lambda moment: moment - (5 - moment),
        lambda moment: moment < (5 - moment),
        lambda moment: moment == "1000",
        int,
        lambda moment: [0] * moment,
    ],
)
def test_a_use_that_is_not_understood_fails(use: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError):
        use(cast(Any, Moment(NOW)))
