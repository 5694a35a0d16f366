"""What small changes of the engine would get wrong, as `python -m tests.mutation` found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ebbtide import narrate
from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine.notices import answer_notices
from ebbtide.engine.ports import Observers
from ebbtide.engine.record_machine import ENDLESS
from ebbtide.engine.scale_to_zero.context import step_of
from ebbtide.engine.scale_to_zero.policies import Policies
from ebbtide.model.events import Alarm
from ebbtide.model.idle import Phase, PolicyCause, PolicyWhy, WakeReason
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import Operation, RemovalState, Spot
from ebbtide.model.record import Lease, Record
from ebbtide.narrate import facts_in
from tests.builders import make_scale_up, make_slot
from tests.policy_harness import PolicyHarness, make_policy, make_state, policy_id
from tests.unit.engine.builders import Small, quick_settings
from tests.unit.engine.test_observers_told import Witness
from tests.unit.engine.test_rounds import removal_of, state_of


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


class MeetsOutcome(MemoryStore):
    """Another writer comes between a launch and the write of its instance."""

    met = False

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        launched = record.launching and any(slot.instance_id for slot in record.launching.slots)
        if launched and not self.met:
            self.met = True
            super().write(self.load(), None)
        return super().write(record, guard, entries)


def test_an_outcome_whose_write_met_another_is_told_only_when_it_is_written() -> None:
    small = Small(settings=quick_settings(), replicas=200)
    witness = Witness(small)
    store = MeetsOutcome(small.clock, database=small.database)
    for _ in range(60):
        small.tick(replace(witness.ports, store=store))
        if witness.ends:
            break
        small.wait(10)
    assert store.met
    assert [succeeded for _, succeeded in witness.ends] == [True]


def test_while_a_pod_is_pending_a_removal_takes_one_step_for_each_look() -> None:
    """What was seen empty is looked at once more before its removal is irrevocable."""
    small = Small(replicas=0)
    small.put(operation=removal_of(small))
    seen = []
    for _ in range(8):
        run = small.leased_run(replace(small.ports, arrived_at=lambda: float("inf")))
        run.decides_since = small.clock.now()
        run.advance_found(lambda record: record.operation)
        seen.append(state_of(small.record))
        if seen[-1] == RemovalState.DRAINED:
            assert small.record.last_said.endswith(run.sentences[-1]), "status says what was done last"
    assert seen.index(RemovalState.DRAINED) < seen.index(RemovalState.TERMINATING)


def test_of_an_operation_that_moves_it_is_not_said_as_well_that_it_continues() -> None:
    small = Small()
    report = small.tick()
    assert small.record.removing is not None
    assert narrate.goes_on(small.record.removing) not in report.says


@pytest.mark.parametrize(("early", "aside"), [(1, False), (0, True)])
def test_an_operation_that_never_ends_is_set_aside_when_its_time_is_over(early: int, aside: bool) -> None:
    small = Small(settings=quick_settings(max_tick_gap_seconds=10**6))
    longest = max(small.settings.stuck_seconds, small.settings.join_timeout_seconds)
    started = small.now - ENDLESS * longest + early
    small.put(launching=make_scale_up(make_slot(since=small.now), started_at=started))
    small.tick()
    assert (small.record.launching_aside is not None) is aside


def test_what_could_not_be_set_aside_is_not_told_to_be() -> None:
    small = Small()
    crashes = small.settings.max_unclean_runs
    small.put(launching=make_scale_up(make_slot(since=small.now)), unclean_runs=crashes)
    store = MeetsAside(small.clock, database=small.database)
    small.tick(replace(small.ports, store=store))
    assert store.met
    assert small.record.launching_aside is None
    assert facts_in(small.notifier.entries, Alarm) == []


class MeetsAside(MemoryStore):
    """Another writer comes just before an operation is set aside."""

    met = False

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        if record.launching_aside is not None and not self.met:
            self.met = True
            super().write(self.load(), None)
        return super().write(record, guard, entries)
