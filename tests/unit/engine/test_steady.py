"""When an answer is used again, and what ends that. Each is compared with the one that is computed again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from ebbtide.engine.ports import ALWAYS
from ebbtide.engine.steady import DERIVED, MARK, Still
from ebbtide.model.decision import Action, Decision
from ebbtide.model.pod import PodPhase
from ebbtide.model.record import Counted, DemandNote, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot
from tests.builders import NOW, make_budget, make_nodes, make_pod, make_record, make_settings
from tests.builders import make_snapshot as seen_at
from tests.steady import Audited

TICK = 60
WEB = make_pod("web-1", node_name="a1", labels=(("app", "web"),))


@dataclass
class Quiet:
    """Two busy workers: each tick sees the same and has nothing to do."""

    thinking: Audited = field(default_factory=Audited)
    now: int = NOW
    snapshot: Snapshot = field(
        default_factory=lambda: seen_at(make_nodes("a1", "b1"), [WEB], cpu=0.5, budgets=[make_budget(1)])
    )
    settings: Settings = field(default_factory=lambda: make_settings(min_workers=2))
    record: Record = field(default_factory=lambda: make_record(ticked_at=NOW - TICK))
    seconds: int = TICK
    """Between two ticks."""
    late: int = 0
    """Seconds from the look to the computation."""
    decision: Decision | None = None

    def tick(self) -> bool:
        """Whether its decision was an earlier one."""
        before = self.thinking.repeated
        tracked, _ = self.thinking.track(self.snapshot, self.record, self.settings, self.now)
        self.decision = self.thinking.decide(self.snapshot, tracked, self.settings, self.now, f"d{self.now}")
        self.record = replace(tracked, rev=tracked.rev + 1)
        assert self.thinking.repeated in (before, before + 1)
        return self.thinking.repeated > before

    def still(self) -> Still | None:
        """What the next ticks do, if nothing happens."""
        return self.thinking.still(self.record, self.now + self.seconds, self.seconds)

    def log(self) -> None:
        """As the engine does with a decision that is new."""
        assert self.decision is not None
        self.record = replace(self.record, decision_key=self.decision.key, decision_logged_at=self.now)

    def pass_on(self, seconds: int = 0) -> None:
        self.now += seconds or self.seconds
        self.see(at=self.now - self.late)

    def see(self, **changes: object) -> None:
        self.snapshot = replace(self.snapshot, **changes)  # type: ignore[arg-type]

    def view(self, **changes: object) -> None:
        self.see(cluster=replace(self.snapshot.cluster, **changes))  # type: ignore[arg-type]


def idle() -> Quiet:
    """Three idle workers, which are not yet idle for long enough: that is said in minutes."""
    return Quiet(
        snapshot=seen_at(make_nodes("a1", "b1", "b2"), cpu=0.01),
        settings=make_settings(min_workers=1, idle_down_seconds=7200, cooldown_down_seconds=0),
        record=make_record(ticked_at=NOW - 3, idle_since=NOW - 66 * 60 - 1),
        seconds=3,
    )


def just_idle() -> Quiet:
    """That is said in seconds, which are others with every tick; and the looks take a while."""
    found = idle()
    found.record, found.late = make_record(ticked_at=NOW - 3, idle_since=NOW - 61), 2
    found.see(at=NOW - found.late)
    return found


@pytest.fixture(params=[Quiet, idle, just_idle], ids=["busy", "idle", "just idle"])
def quiet(request: pytest.FixtureRequest) -> Quiet:
    """Its last tick has used the decision of an earlier one again."""
    found: Quiet = request.param()
    assert (found.thinking.computed, found.thinking.repeated, found.still()) == (0, 0, None)
    for _ in range(6):
        repeated = found.tick()
        if not repeated:
            found.log()
        found.pass_on()
    assert repeated
    return found


def test_what_is_the_same_is_decided_on_once_and_said_again(quiet: Quiet) -> None:
    before = quiet.thinking.computed
    assert quiet.tick()
    assert quiet.decision is not None
    assert (type(quiet.decision.at), quiet.decision.at, quiet.decision.id) == (
        int,
        quiet.now,
        f"d{quiet.now}",
    )
    assert MARK not in quiet.decision.reason
    assert quiet.thinking.computed == before


CHANGES: dict[str, Callable[[Quiet], None]] = {
    "nodes": lambda quiet: quiet.view(nodes=make_nodes("a1", "b1")),
    "pods": lambda quiet: quiet.view(pods=(replace(WEB),)),
    "instances": lambda quiet: quiet.see(instances=quiet.snapshot.instances[:1]),
    "the value of the CPU": lambda quiet: quiet.see(cpu=replace(quiet.snapshot.cpu, value=0.6)),
    "a problem of the CPU": lambda quiet: quiet.see(cpu=replace(quiet.snapshot.cpu, problem="none")),
    "a problem": lambda quiet: quiet.see(problems=("the pods could not be read",)),
    "players": lambda quiet: quiet.see(players={"web": 3}),
    "other settings": lambda quiet: setattr(quiet, "settings", replace(quiet.settings)),
    "timers that were lost": lambda quiet: setattr(
        quiet, "record", replace(make_record(), ticked_at=quiet.record.ticked_at)
    ),
    "a pause": lambda quiet: setattr(quiet, "record", replace(quiet.record, paused=True)),
    "a clock that went back": lambda quiet: quiet.pass_on(-10 * TICK),
    "a look that took longer": lambda quiet: quiet.see(at=quiet.now - 7),
    "a decision that is not the one in the log": lambda quiet: setattr(
        quiet, "record", replace(quiet.record, decision_key="another")
    ),
    "a log that is due": lambda quiet: setattr(
        quiet,
        "record",
        replace(quiet.record, decision_logged_at=quiet.now - quiet.settings.decision_log_seconds),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_is_decided_on_again(quiet: Quiet, change: str) -> None:
    CHANGES[change](quiet)
    before = quiet.thinking.computed
    assert not quiet.tick()
    assert quiet.thinking.computed == before + 1
    if "log" in change:
        assert quiet.still() is None, "what goes to the log is computed in full"


SAME: dict[str, Callable[[Quiet], None]] = {
    "nothing": lambda quiet: None,
    "what is there for the stores": lambda quiet: setattr(
        quiet, "record", replace(quiet.record, lock_owner="x", lock_until=9, lock_token=9, last_said="x")
    ),
    "when the CPU was read": lambda quiet: quiet.see(cpu=replace(quiet.snapshot.cpu, at=quiet.now)),
    "budgets that were not asked for": lambda quiet: quiet.view(budgets=(make_budget(0),)),
    "a log that is due in a second": lambda quiet: setattr(
        quiet,
        "record",
        replace(quiet.record, decision_logged_at=quiet.now - quiet.settings.decision_log_seconds + 1),
    ),
}


@pytest.mark.parametrize("change", SAME)
def test_what_no_step_reads_ends_nothing(quiet: Quiet, change: str) -> None:
    SAME[change](quiet)
    assert quiet.tick()


def noting() -> Quiet:
    """Each tick is as long after the last as notes on demand are apart: the record changes with each."""
    found = Quiet(settings=make_settings(min_workers=2, settled_seconds=30 * TICK))
    for _ in range(3):
        found.tick()
        found.log()
        found.pass_on()
    return found


def test_a_note_of_the_same_demand_ends_no_decision() -> None:
    quiet = noting()
    notes = len(quiet.record.demand)
    assert notes == 3
    for _ in range(40):
        assert quiet.tick()
        assert quiet.still() is None, "the next tick writes another note"
        quiet.pass_on()
    assert len(quiet.record.demand) == 30


def test_no_tick_stands_still_in_which_a_note_on_demand_is_due() -> None:
    """Ticks three times as frequent as notes: two of them write none."""
    quiet = noting()
    quiet.seconds = TICK // 3
    quiet.tick()
    for due in (False, False, True):
        still = quiet.still()
        assert (still is None or still.until <= quiet.now + quiet.seconds) == due
        quiet.pass_on()
        assert quiet.tick()


def test_a_rise_of_demand_in_the_notes_is_decided_on_again() -> None:
    quiet = noting()
    *others, last = quiet.record.demand
    higher = DemandNote(last.at, last.cpu_milli + 100, last.memory_mib)
    quiet.record = replace(quiet.record, demand=(*others, higher))
    assert not quiet.tick()


def test_what_was_computed_for_other_notes_on_demand_does_not_stand_still() -> None:
    quiet = noting()
    quiet.seconds = TICK // 3
    quiet.tick()
    assert quiet.still() is not None
    first, *others = quiet.record.demand
    quiet.record = replace(quiet.record, demand=(replace(first, at=first.at + 1), *others))
    assert quiet.still() is None


def test_budgets_that_were_asked_for_are_seen_to_change() -> None:
    """No worker is removed while a budget keeps the pods of all; then it lets them go."""
    pods = [make_pod(f"web-{name}", node_name=name, labels=(("app", "web"),)) for name in ("a1", "b1", "b2")]
    quiet = Quiet(
        snapshot=seen_at(make_nodes("a1", "b1", "b2"), pods, cpu=0.01, budgets=[make_budget(0, app="web")]),
        settings=make_settings(min_workers=1, idle_down_seconds=0, cooldown_down_seconds=0),
    )
    for _ in range(60):
        repeated = quiet.tick()
        quiet.log()
        quiet.pass_on()
    kept = quiet.decision
    quiet.view(budgets=())
    assert not quiet.tick()
    assert kept is not None
    assert quiet.decision is not None
    assert (repeated, kept.action, quiet.decision.action) == (True, Action.NOTHING, Action.SCALE_DOWN)


def test_ticks_that_stand_still_say_so_until_something_is_due(quiet: Quiet) -> None:
    quiet.tick()
    still = quiet.still()
    assert still is not None
    logged = quiet.record.decision_logged_at + quiet.settings.decision_log_seconds
    assert quiet.now < still.until <= logged
    later = int(still.until) - 1
    expected = ALWAYS.decide(
        replace(quiet.snapshot, at=later), replace(quiet.record, ticked_at=later), quiet.settings, later, "x"
    )
    found = still.decision_at(later)
    assert (found.at, found.reason, found.key) == (later, expected.reason, expected.key)


def test_what_was_computed_once_stands_still_from_the_next_tick_on(quiet: Quiet) -> None:
    """Whether the timers stand still is asked of the next tick, not only of one that was made."""
    quiet.view(pods=(replace(WEB),))
    assert not quiet.tick()
    still, later = quiet.still(), quiet.now + quiet.seconds
    assert still is not None
    assert still.until > later
    assert still.seen_in(replace(quiet.snapshot, at=later - quiet.late))
    decision = still.decision_at(later)
    quiet.pass_on()
    quiet.tick()
    assert quiet.decision is not None
    assert (decision.reason, decision.at, decision.key) == (quiet.decision.reason, later, quiet.decision.key)


def test_timers_that_the_next_tick_changes_do_not_stand_still(quiet: Quiet) -> None:
    quiet.tick()
    assert quiet.still() is not None
    quiet.record = replace(quiet.record, counted_before=(Counted("general", 7),))
    assert quiet.still() is None


@pytest.mark.parametrize(("first", "seconds"), [(-1, 60), (10, 10_000), (10_000, 60)])
def test_ticks_before_the_last_or_far_apart_are_not_known(quiet: Quiet, first: int, seconds: int) -> None:
    quiet.tick()
    assert quiet.thinking.still(quiet.record, quiet.now + first, seconds) is None


def test_nothing_stands_still_once_something_changed(quiet: Quiet) -> None:
    quiet.tick()
    assert quiet.still() is not None
    quiet.pass_on()
    quiet.see(problems=("the pods could not be read",))
    quiet.tick()
    assert quiet.still() is None


def test_after_a_gap_in_the_ticks_the_timers_are_computed(quiet: Quiet) -> None:
    quiet.pass_on(quiet.settings.max_tick_gap_seconds + 1)
    quiet.tick()
    assert quiet.still() is None


def test_what_was_derived_from_the_same_nodes_is_taken_over(quiet: Quiet) -> None:
    quiet.tick()
    before = quiet.snapshot
    known = {name for name in DERIVED if name in vars(before)}
    assert known
    quiet.pass_on()
    quiet.thinking.track(quiet.snapshot, quiet.record, quiet.settings, quiet.now)
    assert all(vars(quiet.snapshot)[name] is vars(before)[name] for name in known)


def test_a_decision_that_was_computed_stands_still_at_once(quiet: Quiet) -> None:
    quiet.settings = replace(quiet.settings)
    assert not quiet.tick()
    assert quiet.still() is not None
    assert quiet.decision is not None
    assert (type(quiet.decision.at), MARK in quiet.decision.reason) == (int, False)


def test_at_the_very_second_at_which_it_comes_out_otherwise_it_is_computed_again() -> None:
    quiet = idle()
    quiet.tick()
    quiet.log()
    quiet.pass_on()
    assert not quiet.tick()
    quiet.pass_on(NOW + 58 - quiet.now)
    assert quiet.tick()
    quiet.pass_on(1)
    assert not quiet.tick()


@pytest.mark.parametrize("change", ["nodes", "instances"])
def test_what_is_derived_is_that_of_what_is_seen_now(quiet: Quiet, change: str) -> None:
    for name in DERIVED:
        getattr(quiet.snapshot, name)
    quiet.tick()
    quiet.pass_on()
    if change == "nodes":
        quiet.view(nodes=quiet.snapshot.cluster.nodes[1:])
    else:
        quiet.see(instances=quiet.snapshot.instances[1:])
    quiet.tick()
    fresh = replace(quiet.snapshot)
    for name in DERIVED:
        assert getattr(quiet.snapshot, name) == getattr(fresh, name), name


def test_where_something_may_be_done_a_decision_is_used_again_only_once_the_same_was_seen_twice() -> None:
    """A pod that fits nowhere is pending for long: each time something changed, a launch is likely."""
    huge = make_pod("huge", cpu_milli=900_000, phase=PodPhase.PENDING)
    quiet = Quiet(
        snapshot=seen_at(make_nodes("a1", "b1"), [WEB, huge], cpu=0.5),
        record=make_record(ticked_at=NOW - 3, pending_since=NOW - 3600),
        seconds=3,
    )
    for _ in range(6):
        quiet.tick()
        quiet.log()
        quiet.pass_on()
    quiet.view(pods=(replace(WEB), huge))
    repeated = []
    for _ in range(4):
        repeated.append(quiet.tick())
        quiet.pass_on()
    assert repeated == [False, False, True, True]
    assert quiet.decision is not None
    assert quiet.decision.action is Action.NOTHING


def test_a_tick_sees_the_same_again_only_after_it_has_seen_it() -> None:
    quiet = Quiet()
    assert not quiet.thinking.sees_again(quiet.snapshot)
    quiet.tick()
    assert quiet.thinking.sees_again(quiet.snapshot)
    quiet.view(nodes=make_nodes("a1", "b1"))
    assert not quiet.thinking.sees_again(quiet.snapshot)
