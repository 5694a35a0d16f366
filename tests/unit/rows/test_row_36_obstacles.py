"""Row 36: what stood in the way is said when a removal is given up; a killed run costs no drain attempt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.nodes.timers import track
from ebbtide.core.operations import scale_down
from ebbtide.core.operations.removals import with_time_again
from ebbtide.model.operation import AbortCause, RemovalState, ScaleDown
from ebbtide.model.record import Record
from tests.builders import NOW, make_pod, make_removal, make_scale_down, make_settings
from tests.unit.operations.builders import cordoned, fleet, make_situation, with_pods, with_work

DRAINING, PLANNED, RELEASING = RemovalState.DRAINING, RemovalState.PLANNED, RemovalState.RELEASING
LATE = make_scale_down(make_removal("a1", state=DRAINING, attempts=1, drain_deadline=NOW - 1))
SEEN = with_pods(fleet(cordoned()), make_pod("web", node_name="a1"))


def tracked(record: Record, now: int = NOW) -> ScaleDown:
    after, _ = track(SEEN, record, make_settings(), now)
    assert isinstance(after.operation, ScaleDown)
    return after.operation


@pytest.mark.parametrize(
    ("state", "reason", "says"),
    [
        (
            DRAINING,
            "default/db must wait: PodDisruptionBudget db allows no disruption now",
            "PodDisruptionBudget db allows no disruption",
        ),
        (
            PLANNED,
            "default/mc-0 has 20 players; only servers with 0 players are moved",
            "default/mc-0 has 20 players",
        ),
        (RemovalState.DRAINED, "CPU is unknown: no answer", "CPU is unknown"),
        (PLANNED, "", "its drain had not begun"),
        (DRAINING, "", "its pods had not left"),
        (RemovalState.DRAINED, "", "it was drained, and not yet allowed to go"),
    ],
)
def test_what_runs_out_of_time_says_what_stood_in_the_way(
    state: RemovalState, reason: str, says: str
) -> None:
    operation = make_scale_down(make_removal("a1", state=state, reason=reason, retry_at=NOW + 9999))
    situation = make_situation(SEEN, record=with_work(operation), now=NOW + 900)
    after = scale_down.advance(operation, situation).state
    assert after.removals[0].state is RELEASING
    for said in (after.abort_reason, after.removals[0].reason):
        assert said.startswith("not finished after 15 min: ")
        assert says in said
    released = replace(after, removals=(replace(after.removals[0], state=RemovalState.RELEASED),))
    closed = scale_down.close(with_work(released), released, make_settings(), NOW + 900)
    assert says in closed.record.rests[0].reason


def test_what_is_terminating_when_time_runs_out_is_not_given_up() -> None:
    operation = make_scale_down(make_removal("a1", state=RemovalState.TERMINATING))
    situation = make_situation(SEEN, record=with_work(operation), now=NOW + 900)
    assert scale_down.advance(operation, situation).state.abort_cause is AbortCause.TOO_LONG


def test_a_run_that_was_killed_costs_no_drain_attempt() -> None:
    """The deadline passed while nobody was there to evict anything: the drain gets its time again."""
    operation = tracked(with_work(LATE, unclean_removal_runs=1, ticked_at=NOW - 60))
    assert operation.removals[0].drain_deadline == NOW + 300
    after = scale_down.advance(operation, make_situation(SEEN, record=with_work(operation))).state
    assert (after.removals[0].state, after.removals[0].attempts) == (DRAINING, 1)


def test_nor_does_a_time_in_which_nobody_looked_or_nothing_could_be_seen() -> None:
    assert tracked(with_work(LATE, ticked_at=NOW - 301)).removals[0].drain_deadline == NOW + 300
    blind, _ = track(replace(SEEN, problems=("no answer",)), with_work(LATE), make_settings(), NOW)
    assert blind.operation is not None
    assert blind.operation != LATE


def test_a_clean_run_leaves_the_deadline_as_it_is() -> None:
    assert tracked(with_work(LATE, ticked_at=NOW - 60)) == LATE
    after = scale_down.advance(LATE, make_situation(SEEN, record=with_work(LATE))).state
    assert after.removals[0].state is PLANNED, "this attempt has failed"


def test_only_a_drain_gets_time_again_and_none_gets_less() -> None:
    settings = make_settings()
    for state in RemovalState:
        removal = make_removal("a1", state=state, drain_deadline=NOW - 1)
        assert (with_time_again(removal, settings, NOW) == removal) is (state is not DRAINING)
    long = make_removal("a1", state=DRAINING, drain_deadline=NOW + 999)
    assert with_time_again(long, settings, NOW) == long
