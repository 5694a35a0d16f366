"""Which phase of a policy may follow which. The explorer asks the same of every write (`tests/explorer`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from ebbtide.core.scale_to_zero.machine import check_invariants
from ebbtide.model.effect import Breach
from ebbtide.model.idle import IdleState, Phase
from ebbtide.ports import PolicyStore
from tests.policy_harness import PolicyHarness, make_state


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.FALLING, Phase.ZERO])
def test_a_wake_is_answered_before_its_target_can_sleep_again(phase: Phase) -> None:
    waking = make_state(Phase.WAKING, wake_count=2)
    (broken,) = check_invariants(waking, replace(waking, phase=phase))
    assert broken.cause is Breach.STATE


def test_no_write_forgets_a_wake() -> None:
    waking = make_state(Phase.WAKING, wake_count=2)
    (broken,) = check_invariants(waking, replace(waking, phase=Phase.ACTIVE, wake_count=1))
    assert broken.cause is Breach.TAKEN_BACK


class Watched:
    """Passes everything on, and checks each state that is written."""

    def __init__(self, rows: PolicyStore) -> None:
        self._rows = rows
        self.phases: list[Phase] = []

    def write_state(self, state: IdleState, *rest: Any) -> IdleState:
        before = self._rows.find_state(state.policy_id)
        assert before is not None
        assert check_invariants(before, state) == ()
        if state.phase is not before.phase:
            self.phases.append(state.phase)
        return self._rows.write_state(state, *rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)


def test_a_night_and_a_morning_go_through_allowed_phases() -> None:
    harness = PolicyHarness()
    watched = Watched(harness.rows)
    harness.rows = cast(PolicyStore, watched)
    harness.scaling = harness.runner()
    harness.sleep()
    harness.signals.values = dict.fromkeys(harness.signals.values, 1.0)
    harness.rounds(600)
    assert watched.phases[-4:] == [Phase.FALLING, Phase.ZERO, Phase.WAKING, Phase.ACTIVE]
