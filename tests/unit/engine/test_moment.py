"""A time that notes until when what was asked of it stays the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from math import inf
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.words import a_while
from ebbtide.engine.steady import Moment, said_at, unmarked

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
    lambda now, since, limit: (now - since) // 7 == limit // 70,
    lambda now, since, limit: divmod(since - now, 9)[0] < limit // 90,
    lambda now, since, limit: divmod(now - since, 9)[1] < limit // 200,
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


@pytest.mark.parametrize("other", [NOW - 1, NOW, NOW + 1])
def test_it_is_compared_to_the_second(other: int) -> None:
    moment = Moment(NOW)
    found = (moment > other, moment >= other, moment < other, moment <= other, moment == other)
    assert found == (other < NOW, other <= NOW, other > NOW, other >= NOW, other == NOW)


def test_a_question_that_time_cannot_answer_otherwise_holds_forever() -> None:
    moment = Moment(NOW)
    assert moment >= 900
    assert moment < inf
    assert moment - 10 < moment
    assert moment.holds_until == inf


def test_a_text_made_of_it_can_be_made_again_for_another_time() -> None:
    moment = Moment(NOW)
    said = f"{moment - 900:d}s/{1_010 - moment:04d}/{moment}"
    assert unmarked(said) == "100s/0010/1000"
    assert said_at(said, 1_007) == "107s/0003/1007"
    assert said_at("timeless", NOW) == unmarked("timeless") == "timeless"
    assert moment.holds_until == inf


def test_a_text_that_begins_with_it_is_sorted_as_the_plain_time_is() -> None:
    names = [f"{Moment(NOW)}-b", "0-first", "2-last", f"{Moment(NOW)}-a"]
    assert [unmarked(name) for name in sorted(names)] == ["0-first", "1000-a", "1000-b", "2-last"]


@given(st.integers(0, 3 * 86_400), st.booleans())
def test_a_duration_in_words_is_made_again_for_as_long_as_the_moment_holds(length: int, ahead: bool) -> None:
    now = 1_000_000
    moment, fixed = cast(Any, Moment(now)), now + length if ahead else now - length
    said = a_while(fixed - moment if ahead else moment - fixed)
    for later in range(now, int(min(cast(Moment, moment).holds_until, now + 300))):
        assert said_at(said, later) == a_while(fixed - later if ahead else later - fixed)


@pytest.mark.parametrize(
    "use",
    [
        lambda moment: datetime.fromtimestamp(moment, UTC),
        lambda moment: {moment: 1},
        lambda moment: moment // 0,
        lambda moment: moment // 1.5,
        lambda moment: divmod(moment, 1),
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
