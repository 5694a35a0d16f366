"""Observers and the log are told of every step in its order, after it is written, and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from ebbtide import narrate
from ebbtide.engine.ports import Observers, Ports
from ebbtide.engine.record_machine import clean
from ebbtide.model.effect import Launch, Outcome, OutcomeKind
from ebbtide.model.events import Alarm, AlarmKind, EffectDone, SpotEvent, Transition
from ebbtide.model.operation import Operation, ScaleUp, Spot
from ebbtide.model.record import Record
from ebbtide.model.snapshot import Instance
from ebbtide.narrate import facts_in
from ebbtide.simulator.world.ports import SimCloud
from tests.builders import make_record, make_removal, make_scale_down, make_scale_up, make_slot, make_spot
from tests.unit.engine.builders import Small, quick_settings
from tests.unit.engine.test_loop import BrokenInbox
from tests.unit.engine.test_notices import BuggyCluster, Spotted

Work = Operation | Spot


class Witness(Observers):
    """Notes what it is told, and what the record says at that moment."""

    def __init__(self, small: Small) -> None:
        super().__init__()
        self.small = small
        self.steps: list[tuple[Work, Work]] = []
        self.ends: list[tuple[Work, bool]] = []
        self.outcomes: list[Outcome] = []

    @property
    def ports(self) -> Ports:
        return replace(self.small.ports, observer=self)

    def in_record(self, work: Work) -> Work | None:
        record = self.small.record
        if isinstance(work, Spot):
            return record.spot_for(work.instance_id)
        return record.launching if isinstance(work, ScaleUp) else record.removing

    def advanced(self, before: Work, after: Work) -> None:
        assert self.in_record(after) in (after, None), "it is told before it is written"
        assert not self.ends, "it is told of the end before the last step"
        self.steps.append((before, after))

    def performed(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes += outcomes

    def closed(self, work: Work, succeeded: bool) -> None:
        assert self.in_record(work) is None
        self.ends.append((work, succeeded))


UP = ("new", "RESERVED", "LAUNCHING", "LAUNCHED", "JOINED", "READY")
DOWN = ("new", "PLANNED", "DRAINING", "DRAINED", "TERMINATING", "GONE")


@pytest.mark.parametrize("grows", [True, False])
def test_an_operation_is_told_step_by_step_from_its_begin_to_its_end(grows: bool) -> None:
    small = Small(settings=quick_settings(), replicas=200) if grows else Small()
    witness = Witness(small)
    for _ in range(60):
        small.tick(witness.ports)
        if witness.ends:
            break
        small.wait(10)
    assert [succeeded for _, succeeded in witness.ends] == [True]
    assert witness.steps
    assert all(before != after for before, after in witness.steps)
    assert witness.steps[-1][1] == witness.ends[0][0]
    for (_, reached), (begun, _) in pairwise(witness.steps):
        assert begun == reached, "a step is left out, or told backwards"
    assert {outcome.kind for outcome in witness.outcomes} >= {OutcomeKind.DONE}

    order = UP if grows else DOWN
    for step in facts_in(small.store.read_log(limit=1000), Transition):
        assert order.index(step.before) < order.index(step.after)


def test_what_was_put_off_is_not_logged_as_done() -> None:
    small = Small()
    witness = Witness(small)
    for _ in range(60):
        small.tick(witness.ports)
        if witness.ends:
            break
        small.wait(10)
    logged = [fact.outcome for fact in facts_in(small.store.read_log(limit=1000), EffectDone)]
    told = [outcome.kind for outcome in witness.outcomes if outcome.kind is not OutcomeKind.SKIPPED]
    assert sorted(logged) == sorted(told)
    assert OutcomeKind.SKIPPED not in logged


class SlowCloud(SimCloud):
    """Each launch takes all of a tick."""

    def launch(self, effect: Launch) -> Instance:
        self._clock.sleep(60)
        return super().launch(effect)


def test_a_launch_that_there_was_no_time_for_is_told_and_not_logged_as_done() -> None:
    small = Small(settings=quick_settings(), replicas=200)
    witness = Witness(small)
    slow = replace(witness.ports, cloud=SlowCloud(small.world, small.clock))
    small.tick(slow)
    kinds = [outcome.kind for outcome in witness.outcomes]
    assert {OutcomeKind.DONE, OutcomeKind.SKIPPED} <= set(kinds)
    logged = facts_in(small.store.read_log(limit=1000), EffectDone)
    assert len(logged) == len(kinds) - kinds.count(OutcomeKind.SKIPPED)


def test_a_write_with_nothing_to_say_keeps_what_was_said_last() -> None:
    small = Small()
    run = small.leased_run()
    run.sentences.append("done")
    run.write(run.record)
    run.sentences.clear()
    run.write(run.record)
    assert small.record.last_said == "done"


CRASHED = quick_settings().max_unclean_runs


def test_what_was_set_aside_first_is_kept_when_another_is_set_aside() -> None:
    small = Small()
    first, second = make_scale_up(make_slot("up-0"), id="up"), make_scale_up(make_slot("next-0"), id="next")
    old, new = make_scale_down(make_removal(), id="down"), make_scale_down(make_removal("b1"), id="then")
    small.put(
        launching=replace(second, started_at=small.now),
        launching_aside=first,
        removing=replace(new, started_at=small.now),
        removing_aside=old,
        unclean_runs=CRASHED,
        unclean_removal_runs=CRASHED,
    )
    report = small.tick()
    record = small.record
    assert (record.launching_aside, record.removing_aside) == (first, old)
    assert (record.unclean_runs, record.unclean_removal_runs) == (0, 0)
    alarms = facts_in(small.notifier.entries, Alarm)
    assert {alarm.operation_id for alarm in alarms if alarm.alarm is AlarmKind.OPERATION_CRASHES} == {
        "next",
        "then",
    }
    assert all(narrate.says(alarm) in report.says for alarm in alarms)


@pytest.mark.parametrize("counts", [(0, 0), (2, 0), (0, 3), (2, 3)])
def test_a_record_is_clean_when_no_run_of_either_lane_counts(counts: tuple[int, int]) -> None:
    record = make_record(unclean_runs=counts[0], unclean_removal_runs=counts[1])
    assert clean(record) == Record()
    assert (clean(record) is record) == (counts == (0, 0))


def test_an_answer_to_a_notice_that_is_given_up_is_told_as_failed() -> None:
    small = Spotted()
    spot = make_spot(
        instance_id=small.instance_id,
        id=f"spot:{small.instance_id}",
        unclean_runs=small.settings.max_unclean_runs,
        deadline=small.now + 120,
    )
    small.put(spots=(spot,))
    witness = Witness(small)
    small.answer(witness.ports)
    assert witness.ends == [(spot, False)]
    assert witness.steps == []


def test_a_notice_is_logged_with_the_node_that_people_know_it_by() -> None:
    small = Spotted()
    small.interrupt()
    small.answer()
    (event,) = facts_in(small.store.read_log(), SpotEvent)
    assert event.node_name == small.victim.name


def test_an_alarm_about_a_notice_is_said_by_the_tick_and_has_its_time_and_an_id() -> None:
    small = Spotted()
    small.interrupt()
    says = small.answer(replace(small.ports, cluster=BuggyCluster(small.world, small.clock)))
    (entry,) = small.notifier.entries
    assert entry.says in says
    assert entry.at == small.now
    assert entry.id.startswith("id-")

    blind = Spotted()
    says = blind.answer(replace(blind.ports, inbox=BrokenInbox(blind.world, blind.clock)))
    (entry,) = blind.notifier.entries
    assert says == [entry.says]
    assert (entry.at, entry.id) == (blind.now, "id-000001")


def test_each_of_several_observers_is_told_every_step_although_another_fails() -> None:
    class Failing(Observers):
        def advanced(self, before: Work, after: Work) -> None:
            raise ZeroDivisionError("a bug")

    small = Small()
    witness = Witness(small)
    together = replace(small.ports, observer=Observers(Failing(), witness))
    for _ in range(60):
        small.tick(together)
        if witness.ends:
            break
        small.wait(10)
    assert witness.steps[-1][1] == witness.ends[0][0]
    for (_, reached), (begun, _) in pairwise(witness.steps):
        assert begun == reached
