"""A change of target meets a round that puts the old one to sleep: nothing is left at zero permanently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from ebbtide.engine.scale_to_zero.policies import Policies, PolicyRefused
from ebbtide.errors import Conflict
from ebbtide.model.idle import Phase, RuleTimer
from ebbtide.model.policy import Policy, Target
from ebbtide.ports import PolicyStore
from tests.policy_harness import MemoryWorkloads, PolicyHarness, make_ref, make_workload

WEB, OTHER = make_ref(), make_ref("other")


class Between:
    """The store of policies, with something that happens just before the next call of one name."""

    def __init__(self, inner: PolicyStore, name: str, happens: Callable[[], object]) -> None:
        self._inner = inner
        self._name = name
        self._happens: Callable[[], object] | None = happens

    def __getattr__(self, name: str) -> Any:
        if name == self._name and self._happens is not None:
            happens, self._happens = self._happens, None
            happens()
        return getattr(self._inner, name)


def about_to_sleep() -> PolicyHarness:
    """Idle for so long that the next round puts it to sleep."""
    harness = PolicyHarness(memory_workloads=MemoryWorkloads(make_workload(), make_workload("other")))
    harness.rounds(2100)
    harness.clock.sleep(60)
    assert (harness.phase(), harness.memory_workloads.calls) == (Phase.IDLE, [])
    return harness


def retarget(harness: PolicyHarness, rows: PolicyStore | None = None) -> Policy:
    book = Policies(rows or harness.rows, harness.clock, lambda: f"retarget-{harness.now}")
    (policy,) = harness.rows.list_policies()
    return book.replace(replace(policy, target=Target((OTHER,))))


@pytest.mark.parametrize("before", ["list_policies", "write_state"])
def test_a_target_that_changes_under_a_round_is_not_put_to_sleep(before: str) -> None:
    harness = about_to_sleep()
    rows = cast(PolicyStore, Between(harness.rows, before, lambda: retarget(harness)))
    harness.round(harness.runner(policies=rows))
    assert harness.memory_workloads.calls == []
    (policy,) = harness.rows.list_policies()
    assert (policy.target.workloads, harness.phase()) == ((OTHER,), Phase.IDLE)
    harness.round()
    assert harness.memory_workloads.calls == [], "the new target begins its own idle time"
    harness.rounds(2160)
    assert harness.memory_workloads.calls == [(OTHER, 0)]


def test_a_target_that_fell_asleep_meanwhile_is_not_changed() -> None:
    harness = about_to_sleep()
    rows = cast(PolicyStore, Between(harness.rows, "put_policy", harness.round))
    with pytest.raises(PolicyRefused, match="target: its target is asleep; wake it first"):
        retarget(harness, rows)
    (policy,) = harness.rows.list_policies()
    assert (policy.target.workloads, policy.version, harness.phase()) == ((WEB,), 1, Phase.ZERO)


def test_a_change_of_target_that_meets_another_write_of_the_state_is_made_again() -> None:
    harness = about_to_sleep()
    rows = cast(
        PolicyStore,
        Between(harness.rows, "put_policy", lambda: harness.put(keep_up_until=harness.now + 3600)),
    )
    assert retarget(harness, rows).version == 2
    assert harness.state.keep_up_until == harness.now + 3600


def test_a_change_of_target_over_another_change_of_the_policy_is_a_conflict() -> None:
    harness = about_to_sleep()

    def change() -> None:
        (policy,) = harness.rows.list_policies()
        harness.rows.put_policy(replace(policy, max_replicas=3))

    with pytest.raises(Conflict, match="version 2, not 1"):
        retarget(harness, cast(PolicyStore, Between(harness.rows, "put_policy", change)))


def test_a_change_of_target_forgets_what_was_known_of_the_old_one() -> None:
    harness = about_to_sleep()
    harness.put(timers=(RuleTimer("0", harness.now - 60),))
    retarget(harness)
    assert harness.state.timers == ()


def test_a_change_of_target_of_a_policy_that_is_deleted_meanwhile_is_a_conflict() -> None:
    harness = about_to_sleep()

    def delete() -> None:
        (policy,) = harness.rows.list_policies()
        harness.rows.delete_policy(policy.id, policy.version)

    with pytest.raises(Conflict):
        retarget(harness, cast(PolicyStore, Between(harness.rows, "put_policy", delete)))
