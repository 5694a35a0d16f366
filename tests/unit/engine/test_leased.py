"""What the end of a run does to its lease and to the count of runs."""

from __future__ import annotations

import pytest

from ebbtide.engine.leased import released
from ebbtide.engine.rounds import InvariantBroken
from ebbtide.errors import EbbtideError, Unanswered
from tests.unit.engine.builders import Small


@pytest.mark.parametrize(
    ("error", "forgiven"),
    [(Unanswered("timed out"), 1), (InvariantBroken("emptied twice"), 0), (ValueError("a bug"), 0)],
)
def test_only_a_run_that_an_outside_fault_stopped_does_not_count(error: Exception, forgiven: int) -> None:
    """Else an operation that always asks for what it must never do would be tried forever."""
    calls: list[str] = []
    leased = Small().leased_run().leased
    with pytest.raises(type(error)), released(leased, forgive=lambda: calls.append("forgiven")):
        raise error
    assert len(calls) == forgiven


def test_the_lease_is_free_after_a_run_that_failed_even_for_one_that_keeps_it() -> None:
    small = Small()
    leased = small.leased_run().leased
    with pytest.raises(EbbtideError), released(leased, keeps_lease=True):
        raise Unanswered("timed out")
    assert small.tick(owner="another").held
