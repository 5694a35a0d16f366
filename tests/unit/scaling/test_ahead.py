"""What sleeps is woken ahead of expected use, where that pays, and by a wake like any other."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from ebbtide.core.scale_to_zero.eta import (
    WEEK,
    Replayed,
    begins,
    is_expected,
    replayed,
    used_steps,
    why_wake,
)
from ebbtide.errors import StoreCause, StoreUnusable
from ebbtide.model.events import PolicyStep, StretchClosed
from ebbtide.model.idle import NO_WHY, IdleState, Phase, PolicyCause, Stretch, WakeReason
from ebbtide.model.log import LogKind
from ebbtide.model.settings import STEP_SECONDS, STEPS_A_DAY
from ebbtide.narrate import entry_of, fact_in
from tests.builders import NOW
from tests.policy_harness import PolicyHarness, make_policy, policy_id

DAY = 86_400
EIGHT, TEN = 8 * 4, 10 * 4
HOLD = 2100
MIDNIGHT = NOW - NOW % DAY


def stretch(phase: Phase, since: int, until: int) -> Stretch:
    return Stretch(policy_id(), "UTC", phase, since, until)


def mornings(days: int) -> list[bool]:
    """In use from eight to ten on every day."""
    return [EIGHT <= step % STEPS_A_DAY < TEN for step in range(days * STEPS_A_DAY)]


def sleeps(days: int, first: int) -> list[Stretch]:
    """What the log holds of them: from ten until eight."""
    ends = [first + day * DAY for day in range(days)]
    return [stretch(Phase.ZERO, end + 10 * 3600, end + DAY + 8 * 3600) for end in ends]


def test_between_two_stretches_it_was_in_use() -> None:
    found = used_steps([*sleeps(2, 0), stretch(Phase.ZERO, 2 * DAY + 36_000, 3 * DAY)], 3 * DAY)
    first = 10 * 4 + 1
    assert [step + first for step, used in enumerate(found) if used] == [
        *range(STEPS_A_DAY + EIGHT, STEPS_A_DAY + TEN),
        *range(2 * STEPS_A_DAY + EIGHT, 2 * STEPS_A_DAY + TEN),
    ]


def test_a_moment_between_two_stretches_is_no_use() -> None:
    parts = [stretch(Phase.ZERO, 0, 3600), stretch(Phase.WAKING, 3600, 3660), stretch(Phase.IDLE, 3800, 7200)]
    assert used_steps(parts, 7200) == [False] * 7
    assert used_steps([], NOW) == []


def test_no_more_than_four_weeks_are_looked_at() -> None:
    assert len(used_steps(sleeps(60, 0), 60 * DAY)) == 4 * WEEK


def test_use_is_expected_as_on_the_same_days_of_the_weeks_before() -> None:
    used = mornings(14)
    assert is_expected(used, 14 * STEPS_A_DAY + EIGHT)
    used[WEEK + EIGHT] = False
    assert not is_expected(used, 14 * STEPS_A_DAY + EIGHT)


def test_after_one_week_most_days_decide_and_before_nothing_is_expected() -> None:
    used = mornings(8)
    assert is_expected(used, 8 * STEPS_A_DAY + EIGHT)
    for day in (2, 3, 4):
        used[day * STEPS_A_DAY + EIGHT] = False
    assert not is_expected(used, 8 * STEPS_A_DAY + EIGHT)
    assert not is_expected(mornings(6), 6 * STEPS_A_DAY + EIGHT)


def test_only_the_beginning_of_expected_use_wakes() -> None:
    used = mornings(14)
    assert [step for step in range(STEPS_A_DAY) if begins(used, 14 * STEPS_A_DAY + step)] == [EIGHT - 1]


def test_a_replay_counts_users_who_wait_and_the_time_it_is_up() -> None:
    used = mornings(14)
    assert replayed(used, 3) == Replayed(7 * (8 + 3), 7)
    assert replayed(used, 3, looks_ahead=True) == Replayed(7 * (8 + 3 + 1), 0)


def test_it_is_woken_where_that_beats_a_longer_window_of_equal_cost() -> None:
    used = mornings(14) + mornings(1)[: EIGHT - 1]
    why = why_wake(used, HOLD, MIDNIGHT + (EIGHT - 1) * STEP_SECONDS)
    assert (why.cause, why.found, why.limit) == (PolicyCause.EXPECTED, 0, 7)
    assert why_wake(used[:-1], HOLD, MIDNIGHT) == NO_WHY
    assert why_wake(used[-WEEK:], HOLD, MIDNIGHT) == NO_WHY


def test_it_is_left_asleep_where_looking_ahead_would_have_helped_nobody() -> None:
    """Used once a week: expected, but in the last week no use could have been."""
    once = mornings(1) + [False] * 6 * STEPS_A_DAY
    used = once + once + mornings(1)[: EIGHT - 1]
    assert begins(used, len(used))
    assert why_wake(used, HOLD, MIDNIGHT) == NO_WHY


def harness(ahead: bool = True, days: int = 15, **changes: object) -> PolicyHarness:
    """A policy that sleeps, a quarter before eight, after weeks with a use every morning."""
    made = PolicyHarness(policies=(make_policy(),))
    made.clock.jump(MIDNIGHT + DAY + (EIGHT - 1) * STEP_SECONDS - made.now)
    numbers, begun = count(1), MIDNIGHT + DAY - days * DAY
    for each in sleeps(days - 1, begun):
        made.store.append(
            [entry_of(f"a-{next(numbers):06d}", each.until, StretchClosed(each), each.policy_id)]
        )
    asleep = {
        "phase": Phase.ZERO,
        "idle_since": made.now - 50_000,
        "scaled_to_zero_at": MIDNIGHT + 10 * 3600,
        "stretch_since": MIDNIGHT + 10 * 3600,
        "last_activity_at": MIDNIGHT + 9 * 3600,
        "checked_at": made.now,
    }
    made.memory_workloads.put(made.policies[0].target.workloads[0], replicas=0, ready_replicas=0)
    made.put(**{**asleep, **changes})
    made.scaling = made.runner(looks_ahead=ahead)
    return made


def test_a_round_wakes_what_will_be_used_and_says_why() -> None:
    made = harness()
    made.round()
    assert made.state.phase is Phase.WAKING
    assert made.state.wake_reason is WakeReason.SCHEDULED
    (entry,) = made.store.read_log([LogKind.WAKE])
    step = fact_in(entry, PolicyStep)
    assert step is not None
    assert step.cause is PolicyCause.EXPECTED
    assert (step.found, step.limit) == (0, 7)


def test_another_runner_joins_the_wake_of_one_that_died() -> None:
    made = harness()
    made.round()
    before = made.state.wake_count
    made.round(made.runner(looks_ahead=True), "another")
    assert made.state.wake_count == before


@pytest.mark.parametrize(
    "changes",
    [{"ahead": False}, {"idle_since": None}, {"paused": True}, {"days": 9}],
    ids=["not configured", "a schedule keeps it asleep", "paused", "too little is known"],
)
def test_it_is_left_asleep(changes: dict[str, object]) -> None:
    made = harness(**changes)  # type: ignore[arg-type]
    made.round()
    assert made.state.phase is Phase.ZERO


def test_a_policy_that_is_not_watched_is_left_asleep() -> None:
    made = harness()
    made.rows.put_policy(replace(made.policies[0], enabled=False, version=1))
    made.round()
    assert made.state.phase is not Phase.WAKING or made.state.wake_reason is not WakeReason.SCHEDULED


def test_a_log_that_cannot_be_read_wakes_nothing_and_is_said() -> None:
    made = harness()

    class Away:
        def __getattr__(self, name: str) -> object:
            return getattr(made.store, name)

        def read_log(self, *_: object) -> list[object]:
            raise StoreUnusable(StoreCause.UNREACHABLE, "away")

    says = made.round(made.runner(looks_ahead=True, store=Away()))
    assert "nothing was woken ahead of use: away" in says
    state: IdleState = made.state
    assert state.phase is Phase.ZERO


def test_a_policy_that_is_deleted_meanwhile_is_not_woken_and_stops_no_round() -> None:
    made = harness()

    class Deleted:
        def __getattr__(self, name: str) -> object:
            return getattr(made.rows, name)

        def find_policy(self, _: str) -> None:
            return None

    made.round(made.runner(looks_ahead=True, policies=Deleted()))
    assert made.state.phase is Phase.ZERO


def test_what_sleeps_again_in_the_same_quarter_is_not_woken_a_second_time() -> None:
    made = harness()
    made.round()
    woken = made.state
    made.put(phase=Phase.ZERO, idle_since=made.now - 50_000)
    made.memory_workloads.put(made.policies[0].target.workloads[0], replicas=0, ready_replicas=0)
    made.round()
    assert (made.state.phase, made.state.wake_count) == (Phase.ZERO, woken.wake_count)


def test_use_is_known_from_every_page_of_a_long_log() -> None:
    """Each night is many stretches here: its price changed every few minutes."""
    made = harness(days=1)
    begun, pieces = MIDNIGHT - 14 * DAY, 80
    parts = [
        stretch(Phase.ZERO, night.since + piece * step, night.since + (piece + 1) * step)
        for night in sleeps(14, begun)
        for step in [(night.until - night.since) // pieces]
        for piece in range(pieces)
    ]
    made.store.append(
        [
            entry_of(f"a-{number:06d}", each.until, StretchClosed(each), each.policy_id)
            for number, each in enumerate(parts)
        ]
    )
    made.round()
    assert (made.state.phase, made.state.wake_reason) == (Phase.WAKING, WakeReason.SCHEDULED)
