"""What small changes of the engine would get wrong, as `python -m tests.mutation` found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.engine.notices import answer_notices
from ebbtide.engine.ports import Observers
from ebbtide.engine.record_machine import ENDLESS
from ebbtide.engine.scale_to_zero.context import step_of
from ebbtide.engine.scale_to_zero.policies import Policies
from ebbtide.model.idle import Phase, PolicyCause, PolicyWhy, WakeReason
from ebbtide.model.log import LogKind
from ebbtide.model.operation import Operation, Spot
from tests.builders import make_scale_up, make_slot
from tests.policy_harness import PolicyHarness, make_policy, make_state, policy_id
from tests.unit.engine.builders import Small, quick_settings


@pytest.mark.parametrize(("stuck", "join"), [(100, 900), (900, 100)])
def test_an_operation_is_endless_by_the_longer_of_its_two_limits(stuck: int, join: int) -> None:
    """Else a launch that merely waits for its machine to join would be set aside."""
    settings = quick_settings(
        stuck_seconds=stuck,
        join_timeout_seconds=join,
        launch_timeout_seconds=join,
        max_tick_gap_seconds=10**6,
    )
    small = Small(settings=settings)
    started = small.now - ENDLESS * 900 + 120
    small.put(launching=make_scale_up(make_slot(since=small.now), started_at=started))
    small.tick()
    assert small.record.launching_aside is None
    small.wait(300)
    small.tick()
    assert small.record.launching_aside is not None


def test_a_policy_is_found_by_its_name_and_by_its_id() -> None:
    harness = PolicyHarness(policies=(make_policy("web"),))
    book = Policies(harness.rows, harness.clock, lambda: "id", ())
    assert book.find("web") == book.find(policy_id())


WOKEN = PolicyWhy(PolicyCause.WOKEN, "woken")


def test_the_log_says_who_was_woken_and_why() -> None:
    state = make_state(Phase.WAKING, wake_reason=WakeReason.WEBHOOK, wake_count=3)
    step = step_of(make_policy(), state, LogKind.WAKE, WOKEN)
    assert step.wake_reason is WakeReason.WEBHOOK
    assert (step.wake_id or "").endswith("3")
    assert step.seconds is None
    unsaid = step_of(make_policy(), replace(state, wake_reason=None), LogKind.WAKE, WOKEN)
    assert unsaid.wake_reason is WakeReason.MANUAL


class Began(Observers):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def began(self, work: Operation | Spot) -> None:
        self.seen.append(work.id)


def test_a_notice_that_comes_twice_begins_once() -> None:
    small = Small()
    node = small.add_node("a", 100, pool="spot")
    small.wait(30)
    (instance,) = (i for i in small.ports.cloud.list_instances() if i.provider_id == node.provider_id)
    observer = Began()
    ports = replace(small.ports, observer=observer)
    for _ in range(2):
        small.world.plan(small.now, "rebalance", instance.id)
        small.wait(1)
        answer_notices(ports, small.settings, "runner", small.clock.now() + 60)
    assert observer.seen == [f"spot:{instance.id}"]
