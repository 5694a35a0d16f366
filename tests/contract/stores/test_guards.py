"""What a refused write, or one whose reply was lost, means: decided without a database."""

from __future__ import annotations

import pytest

from ebbtide.adapters.stores.guards import (
    ATTEMPTS,
    ATTEMPTS_WHEN_THROTTLED,
    Attempt,
    Stored,
    StoredLease,
    repeat,
)
from ebbtide.errors import Conflict, LeaseLost, Retryable, StoreCause, StoreUnusable, Throttled, Unanswered
from ebbtide.model.record import CLUSTER_LEASE, Lease, Record
from tests.contract.stores.lab import StillClock

LEASE = Lease(CLUSTER_LEASE, "a", 3, 100)
OURS = StoredLease("a", 100, 3)


def attempt(reply_lost: bool = False, guard: Lease | None = None) -> Attempt:
    return Attempt(Record(rev=4), guard, "n-1", reply_lost)


def test_a_write_with_our_nonce_is_our_own_even_when_the_lease_is_gone() -> None:
    ours = attempt(reply_lost=True, guard=LEASE)
    assert ours.was_ours(Stored(5, nonce="n-1"))
    ours.settle(Stored(5, nonce="n-1"), StoredLease("b", 200, 4), 150)


def test_a_foreign_write_of_the_same_rev_is_a_conflict_even_after_a_lost_reply() -> None:
    with pytest.raises(Conflict, match="rev 5, not 4"):
        attempt(reply_lost=True).settle(Stored(5, nonce="other"), StoredLease(), 50)


def test_nobody_can_tell_once_others_have_written_over_a_lost_reply() -> None:
    with pytest.raises(Unanswered, match="others have written since"):
        attempt(reply_lost=True, guard=LEASE).settle(Stored(6, nonce="other"), OURS, 50)


def test_without_a_lost_reply_later_writes_are_a_plain_conflict() -> None:
    with pytest.raises(Conflict):
        attempt(guard=LEASE).settle(Stored(6, nonce="other"), OURS, 50)


def test_a_lost_lease_is_named_before_a_conflict() -> None:
    with pytest.raises(LeaseLost):
        attempt(guard=LEASE).settle(Stored(5), StoredLease("b", 200, 4), 50)


def test_a_condition_that_holds_again_asks_to_try_again() -> None:
    with pytest.raises(Conflict, match="try again"):
        attempt(guard=LEASE).settle(Stored(4), OURS, 50)


class Calls:
    """Answers each call with the next of its outcomes and notes what it was told."""

    def __init__(self, *outcomes: Exception | str) -> None:
        self.outcomes = list(outcomes)
        self.told: list[bool] = []

    def __call__(self, reply_lost: bool) -> str:
        self.told.append(reply_lost)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, str):
            return outcome
        raise outcome


def test_a_lost_reply_is_repeated_and_the_repetition_is_told() -> None:
    calls = Calls(Unanswered("1"), Retryable("down"), "done")
    assert repeat(StillClock(), calls) == "done"
    assert calls.told == [False, True, True]


def test_repetition_is_bounded() -> None:
    calls = Calls(*[Unanswered(str(n)) for n in range(ATTEMPTS + 1)])
    with pytest.raises(Unanswered):
        repeat(StillClock(), calls)
    assert len(calls.told) == ATTEMPTS


def test_throttling_is_repeated_more_patiently_and_bounded() -> None:
    calls = Calls(*[Throttled("busy")] * (ATTEMPTS_WHEN_THROTTLED + 1))
    with pytest.raises(Throttled):
        repeat(StillClock(), calls)
    assert len(calls.told) == ATTEMPTS_WHEN_THROTTLED


@pytest.mark.parametrize("answer", [Retryable("down"), StoreUnusable(StoreCause.READ_ONLY, "read-only")])
def test_a_definite_refusal_is_not_repeated(answer: Exception) -> None:
    calls = Calls(answer)
    with pytest.raises(type(answer)):
        repeat(StillClock(), calls)


@pytest.mark.parametrize(
    "then",
    [[StoreUnusable(StoreCause.READ_ONLY, "read-only")], [Retryable("down")] * 9, [Throttled("x")] * 9],
)
def test_after_a_lost_reply_anything_less_than_an_answer_is_unanswered(then: list[Exception]) -> None:
    with pytest.raises(Unanswered, match="first"):
        repeat(StillClock(), Calls(Unanswered("first"), *then))


def test_pauses_grow_with_jitter_and_stay_bounded() -> None:
    class Noting(StillClock):
        slept: list[float] = []  # noqa: RUF012

        def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)

    clock = Noting()
    with pytest.raises(Throttled):
        repeat(clock, Calls(*[Throttled("busy")] * ATTEMPTS_WHEN_THROTTLED))
    assert all(0.05 <= pause <= 3.0 for pause in clock.slept)
    assert sum(clock.slept) < 12
