"""What is said where sleepers go astray: the watch over them is itself watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.model.idle import IdleState, Phase
from ebbtide.model.pod import WorkloadKind, WorkloadRef
from ebbtide.model.policy import Schedule, Target
from ebbtide.ports import PolicyStore
from ebbtide.simulator.checker.sleepers import LONGEST_WAIT_SECONDS, NAMES, Visitor, Watchman
from ebbtide.simulator.checker.violations import Violation, ViolationKind
from ebbtide.simulator.run.runner import policies_of, ports_of, scaling_of, stage_of
from ebbtide.simulator.run.scenarios import build

USED_AT = 2.1 * 3600
"""Seconds after the beginning when people use the first of the sleepers."""


class Street:
    """The sleepers of the scenario, some of them used, and who watches them."""

    def __init__(self, after: float = USED_AT, *, room: bool = True) -> None:
        scenario = build("sleepers", seed=1)
        self.stage = stage_of(scenario.world, scenario.settings)
        self.stage.policies, self.stage.zero = scenario.policies, scenario.zero
        self.rows: PolicyStore = policies_of(self.stage)
        for policy in scenario.policies:
            self.rows.put_policy(policy)
        self.first = scenario.policies[0]
        self.visitor = Visitor(self.scaling, scenario.policies, 1.0, "visits")
        self.watchman = Watchman(scenario.world, self.rows, self.visitor, room)
        self.pass_time(after)

    def scaling(self) -> Scaling:
        return scaling_of(self.stage, ports_of(self.stage))

    def pass_time(self, seconds: float) -> None:
        self.stage.clock.sleep(seconds)
        self.stage.world.advance_to(self.stage.clock.now())

    def want(self, replicas: int) -> None:
        self.stage.world.controllers.set_wanted(f"default/{NAMES[0]}", replicas)
        self.pass_time(120)

    def put(self, change: Callable[[IdleState], IdleState]) -> None:
        state = self.rows.find_state(self.first.id)
        assert state is not None
        self.rows.write_state(change(state))

    def retarget(self, **changes: Any) -> None:
        """The first policy alone, changed."""
        for policy in self.rows.list_policies():
            self.rows.delete_policy(policy.id, policy.version)
        self.first = self.rows.put_policy(replace(self.first, version=0, **changes))

    def look_twice(self) -> list[Violation]:
        """Now, and when it has been so for too long."""
        said = list(self.watchman.look())
        self.pass_time(LONGEST_WAIT_SECONDS + 60)
        return said + list(self.watchman.look())


def found(violations: Iterable[Violation]) -> list[tuple[ViolationKind, str]]:
    return [(each.kind, each.about) for each in violations]


def test_nothing_is_said_while_all_is_well() -> None:
    street = Street()
    street.visitor.come()
    assert street.look_twice() == []
    assert list(street.watchman.finish()) == []


def test_people_wait_for_what_does_not_wake() -> None:
    street = Street()
    street.put(lambda state: replace(state, phase=Phase.ZERO))
    street.want(0)
    assert found(street.look_twice()) == [(ViolationKind.USERS_WAIT, "reports")]


def test_where_there_may_be_no_room_it_is_enough_that_pods_are_wanted() -> None:
    street = Street(room=False)
    street.want(0)
    street.stage.world.pods.book.workloads["default/reports"].wanted = 3
    assert street.look_twice() == []


def test_a_state_that_is_not_what_the_cluster_shows() -> None:
    street = Street(after=0)
    street.want(0)
    astray = [(ViolationKind.STATE_ASTRAY, "reports")]
    assert found(street.look_twice()) == astray
    assert found(street.watchman.finish()) == astray
    street.want(4)
    street.put(lambda state: replace(state, phase=Phase.FALLING))
    assert found(street.watchman.finish()) == astray


def test_a_wake_that_was_answered_and_forgotten() -> None:
    street = Street()
    street.visitor.come()
    assert street.visitor.answered[street.first.id] == 1
    street.put(lambda state: replace(state, wake_count=0))
    assert found(street.watchman.look()) == [(ViolationKind.WAKE_FORGOTTEN, "reports")]
    assert list(street.watchman.look()) == [], "once is enough"


def test_a_group_of_which_one_is_up_while_it_sleeps_is_astray() -> None:
    street = Street(after=0)
    both = tuple(WorkloadRef(WorkloadKind.DEPLOYMENT, "default", name) for name in NAMES[:2])
    street.retarget(target=Target(both))
    street.want(0)
    street.put(lambda state: replace(state, phase=Phase.ZERO))
    assert (ViolationKind.STATE_ASTRAY, "reports") in found(street.look_twice())


def test_what_a_schedule_puts_to_sleep_keeps_nobody_waiting() -> None:
    street = Street()
    street.retarget(schedules=(Schedule("0 0 * * *", replicas=0),))
    street.put(lambda state: replace(state, phase=Phase.ZERO))
    street.want(0)
    assert street.look_twice() == []


def test_of_a_pool_no_replicas_are_known() -> None:
    street = Street()
    street.retarget(target=Target(pool="general"))
    street.put(lambda state: replace(state, phase=Phase.ZERO))
    street.want(3)
    assert street.look_twice() == []
