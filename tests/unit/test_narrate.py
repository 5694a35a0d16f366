"""Facts as sentences: the one place where sentences are compared."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from ebbtide.core.operations.facts import closed
from ebbtide.model.decision import Action, Decision
from ebbtide.model.effect import OutcomeKind
from ebbtide.model.events import (
    FACTS,
    TICKS,
    Alarm,
    AlarmKind,
    BacktestPublished,
    ConsolidationEvaluated,
    CostNoted,
    DecisionMade,
    DrainResult,
    EffectDone,
    EffectKind,
    Event,
    FaultStruck,
    Inputs,
    Kept,
    OperationBegun,
    OperationClosed,
    OperationKind,
    PartKind,
    PolicyChange,
    PolicyStep,
    PolicyWritten,
    SpotAnswer,
    SpotEvent,
    StretchClosed,
    SwitchedBy,
    SwitchSet,
    Transition,
    TriedSettings,
)
from ebbtide.model.idle import Phase, PolicyCause, Rate, Stretch, WakeReason
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import RemovalState, SpotEnd, SpotKind
from ebbtide.narrate import entry_of, fact_in, facts_in, goes_on, says, tick_of
from tests.builders import (
    NOW,
    make_record,
    make_removal,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    make_spot,
)

ID = "1793602800-01kq7x3v9pzzz0a1b2c"
TAIL = " (operation …0a1b2c)"
UP, DOWN, MOVES = OperationKind.SCALE_UP, OperationKind.SCALE_DOWN, OperationKind.CONSOLIDATION
DECISION = Decision("d", NOW, Action.SCALE_DOWN, "remove a1", ())
DECIDED = DecisionMade(DECISION, Inputs(make_snapshot(), make_record(), make_settings(), NOW))


def ended(operation: OperationKind, succeeded: bool = True, **fields: object) -> OperationClosed:
    base = OperationClosed(ID, operation, succeeded, NOW, instance_id="i-a1")
    return replace(base, **fields)  # type: ignore[arg-type]  # named fields of the fact


def done(effect: EffectKind, outcome: OutcomeKind = OutcomeKind.DONE, detail: str = "") -> EffectDone:
    return EffectDone(ID, DOWN, effect, outcome, "a1", detail, "default/web", "i-a1", "small", "spot", "z")


def notice(answer: SpotAnswer, kind: SpotKind = SpotKind.INTERRUPTION) -> SpotEvent:
    return SpotEvent("spot:i-a1", "i-a1", kind, answer, 0, 1_793_602_800)


KEPT = (Kept("a2", "it holds a bare pod"),)
SENTENCES: list[tuple[Event, str]] = [
    (DECIDED, "scale_down: remove a1"),
    (
        OperationBegun(ID, DOWN, "scale_down", "d", 0, ("a1",), 0, "remove a1"),
        f"scale-down begun: remove a1{TAIL}",
    ),
    (ended(UP, ready=("a9",)), f"scale-up completed: a9 ready{TAIL}"),
    (
        ended(UP, ready=("a9",), kept=KEPT),
        f"scale-up completed: a9 ready; without a2: {KEPT[0].reason}{TAIL}",
    ),
    (ended(UP, succeeded=False, kept=KEPT), f"scale-up failed: a2: it holds a bare pod{TAIL}"),
    (ended(UP, succeeded=False), f"scale-up failed: nothing was to be launched{TAIL}"),
    (ended(DOWN, removed=("a1",)), f"scale-down completed: a1 removed{TAIL}"),
    (
        ended(DOWN, removed=("a1",), kept=KEPT),
        f"scale-down completed: a1 removed; a2 kept: it holds a bare pod{TAIL}",
    ),
    (
        ended(DOWN, removed=("a1",), gone_already=("b1",)),
        f"scale-down completed: a1 removed; b1 gone already{TAIL}",
    ),
    (ended(DOWN, succeeded=False, kept=KEPT), f"scale-down given up: a2 kept: it holds a bare pod{TAIL}"),
    (
        ended(MOVES, moved=1, emptied=("a1", "a2")),
        f"consolidation completed: 1 pod moved, a1, a2 emptied{TAIL}",
    ),
    (
        ended(MOVES, succeeded=False, abort_reason="removals are paused"),
        f"consolidation given up: removals are paused; 0 pods moved, no node emptied{TAIL}",
    ),
    (
        Transition(ID, UP, PartKind.LAUNCH, "a1", "JOINED", "READY"),
        "a1 JOINED -> READY",
    ),
    (
        DrainResult(ID, DOWN, PartKind.REMOVAL, "a1", "DRAINING", "PLANNED", "a bare pod"),
        "a1 DRAINING -> PLANNED: a bare pod",
    ),
    (done(EffectKind.LAUNCH, OutcomeKind.NO_CAPACITY), "launch a1 (small, spot, z): no capacity"),
    (done(EffectKind.TERMINATE), "terminate a1: done"),
    (done(EffectKind.EVICT, OutcomeKind.LATER, "busy"), "evict default/web from a1: later (busy)"),
    (done(EffectKind.CORDON), "cordon a1: done"),
    (done(EffectKind.UNCORDON), "uncordon a1: done"),
    (done(EffectKind.SOFT_TAINT), "taint a1 softly: done"),
    (done(EffectKind.DELETE_NODE), "delete node a1: done"),
    (notice(SpotAnswer.TAKEN_IN), "interruption of i-a1 received: the instance will be gone at 07:00 UTC"),
    (notice(SpotAnswer.TAKEN_IN, SpotKind.REBALANCE), "rebalance of i-a1 received"),
    (replace(notice(SpotAnswer.KNOWN), node_name="a1"), "interruption of a1 (i-a1) is already known"),
    (
        notice(SpotAnswer.UPGRADED),
        "rebalance of i-a1 became an interruption: it will be gone at 07:00 UTC",
    ),
    (notice(SpotAnswer.KNOWN), "interruption of i-a1 is already known"),
    (notice(SpotAnswer.NOT_OURS), "interruption of i-a1 ignored: not an instance of ours"),
    (notice(SpotAnswer.ALREADY_GOING), "interruption of i-a1 ignored: it is already being removed"),
    (notice(SpotAnswer.TOO_OLD), "interruption of i-a1 ignored: too old"),
    (Alarm(AlarmKind.TICK_FAILED, "no answer"), "tick failed: no answer"),
    (
        Alarm(AlarmKind.ROUND_FAILED, "KeyError: 'x'", unexpected=True),
        "the round over the policies failed unexpectedly: KeyError: 'x'",
    ),
    (
        Alarm(AlarmKind.OPERATION_CRASHES, operation_id=ID, runs=5),
        "an operation crashed its runner 5 times and was set aside: "
        f"removals wait until `ebbtide resume`{TAIL}",
    ),
    (
        Alarm(AlarmKind.OPERATION_ENDLESS, operation_id=ID, seconds=37_218),
        "an operation did not end within 10 h 20 min and was set aside: "
        f"removals wait until `ebbtide resume`{TAIL}",
    ),
    (
        Alarm(AlarmKind.SPOT_CRASHES, "rebalance of i-a1", runs=1),
        "rebalance of i-a1 crashed its runner 1 time and was given up",
    ),
    (Alarm(AlarmKind.SPOT_FAILED, "i-a1: no answer"), "the answer to a spot notice failed: i-a1: no answer"),
    (Alarm(AlarmKind.INBOX_UNREADABLE, "no answer"), "the inbox could not be read: no answer"),
    (
        Alarm(AlarmKind.LOG_NOT_PRUNED, "no answer"),
        "old log entries could not be removed: no answer; the next attempt is tomorrow",
    ),
    (
        Alarm(AlarmKind.SOURCE_GONE, "no answer", source="cluster"),
        "outage begins: no answer",
    ),
    (
        Alarm(AlarmKind.SOURCE_BACK, seconds=300, source="metrics"),
        "outage over: the metrics can be read again after 5 min",
    ),
    (
        Alarm(AlarmKind.SOURCE_BACK, seconds=360, source=TICKS),
        "outage over: ticks succeed again after 6 min",
    ),
    (Alarm(AlarmKind.OBSERVATION, "a lone instance"), "a lone instance"),
    (Alarm(AlarmKind.RUNNER_DIED, "runner-1 crashed"), "runner-1 crashed"),
    (SwitchSet(True, SwitchedBy.PERSON, "upgrade"), "removals paused by a person (upgrade)"),
    (SwitchSet(False, SwitchedBy.API), "removals resumed by the API"),
    (FaultStruck("all spot nodes are lost"), "a person broke something: all spot nodes are lost"),
    (
        BacktestPublished(
            "month.ebb", 86_400, "EUR", "", (TriedSettings("today", "3.20", 60, 30, 2, True, True),)
        ),
        "backtest of month.ebb published: 1 setting compared",
    ),
    (PolicyWritten("web", PolicyChange.CREATED, "default/web"), "policy web created: default/web"),
    (
        PolicyStep("web", Phase.WAKING, "woken (manual)", WakeReason.MANUAL, "w-1"),
        "policy web: woken (manual)",
    ),
    (
        StretchClosed(Stretch("p", "UTC", Phase.ZERO, 0, 37_218, Rate(Decimal(1), "EUR", "file"))),
        "zero for 10 h 20 min",
    ),
    (CostNoted({"EUR": "0.10"}, 1), "the workers cost 0.10 EUR an hour; 1 worker without a known price"),
    (CostNoted({}, 0), "the workers cost nothing that is known an hour"),
    (
        ConsolidationEvaluated("consolidation.evaluated", 2, 2, (), ("a1", "a2"), 0.0, 0.0, 0, "too small"),
        "too small",
    ),
]


@pytest.mark.parametrize(("fact", "said"), SENTENCES, ids=[said for _, said in SENTENCES])
def test_every_fact_has_a_sentence_and_can_be_read_back_from_its_entry(fact: Event, said: str) -> None:
    assert says(fact) == said
    entry = entry_of("e-1", NOW, fact, "a1")
    assert (entry.says, entry.subject, entry.at) == (said, "a1", NOW)
    assert entry.data
    if not isinstance(fact, DecisionMade):  # `journal` reads those, an operation in the record by its parts
        assert fact_in(entry, type(fact)) == fact


def test_every_kind_of_entry_has_its_fact_and_every_fact_a_sentence_here() -> None:
    assert set(FACTS) == set(LogKind)
    assert {kind for kinds in FACTS.values() for kind in kinds} == {type(fact) for fact, _ in SENTENCES}


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (SpotEnd.ANSWERED, "answered: a1 is gone, nothing replaces it"),
        (SpotEnd.REMOVED_MEANWHILE, "answered: it was removed in the meantime"),
        (SpotEnd.NODE_STAYS, "ended: the node stays (why)"),
        (SpotEnd.NEVER_JOINED, "ended: it never joined"),
        (SpotEnd.NOT_LISTED, "ended: it is no longer listed"),
        (SpotEnd.NO_REPLACEMENT, "not followed: no replacement came (why)"),
        (SpotEnd.LAPSED, "lapsed: why"),
        (SpotEnd.OPEN, "ended"),
    ],
)
def test_the_answer_to_a_notice_says_how_it_ended(end: SpotEnd, said: str) -> None:
    gone = make_removal(state=RemovalState.GONE)
    fact = closed(make_spot(removal=gone, closing=end), True, "why")
    assert says(fact) == f"interruption of i-a1 {said}"
    replaced = replace(fact, end=SpotEnd.ANSWERED, ready=("b9",))
    assert says(replaced) == "interruption of i-a1 answered: a1 is gone, b9 replaces it"


def test_an_entry_of_another_kind_or_of_an_older_version_holds_no_fact() -> None:
    entry = entry_of("e-1", NOW, Alarm(AlarmKind.TICK_FAILED, "no answer"))
    old = LogEntry("0", NOW, LogKind.OPERATION_CLOSED, "scale-down op completed: a1 removed", "op")
    strange = replace(entry, data={"alarm": "of a newer version"})
    assert fact_in(entry, SpotEvent) is None
    assert fact_in(old, OperationClosed) is None
    assert fact_in(strange, Alarm) is None
    assert facts_in([entry, old, strange], Alarm) == [Alarm(AlarmKind.TICK_FAILED, "no answer")]


def test_what_is_not_known_is_not_in_the_data() -> None:
    step = entry_of("e-1", NOW, PolicyStep("web", Phase.ZERO, "is at zero"))
    assert step.data == {"policy": "web", "phase": "zero", "detail": "is at zero"}
    assert step.kind is LogKind.IDLE
    assert entry_of("e-1", NOW, PolicyStep("web", Phase.ZERO), kind=LogKind.RULE).kind is LogKind.RULE


def test_the_cause_of_a_step_is_read_also_where_another_version_logged_it() -> None:
    step = PolicyStep("web", Phase.IDLE, "left up: paused", cause=PolicyCause.PAUSED, found=1, limit=2)
    entry = entry_of("e-1", NOW, step)
    assert fact_in(entry, PolicyStep) == step
    newer = fact_in(replace(entry, data={**entry.data, "cause": "the-moon"}), PolicyStep)
    assert newer == replace(step, cause=PolicyCause.OTHER)
    earlier = {"policy": "web", "phase": "idle", "detail": "left up: paused"}
    assert fact_in(replace(entry, data=earlier), PolicyStep) == PolicyStep(
        "web", Phase.IDLE, "left up: paused"
    )


def test_a_tick_says_what_was_decided_or_why_nothing_was() -> None:
    assert tick_of(DECISION) == "remove a1"
    assert tick_of(replace(DECISION, action=Action.NOTHING)) == "nothing to do: remove a1"


def test_an_operation_that_does_not_move_says_what_it_waits_for() -> None:
    work = make_scale_up(make_slot(reason="throttled"), make_slot("op-1"))
    assert goes_on(work) == "scale-up continues: op-0 RESERVED (throttled), op-1 RESERVED (operation op)"
    many = make_scale_up(*(make_slot(f"op-{number}") for number in range(11)))
    assert goes_on(many) == "scale-up continues: 11 nodes RESERVED (operation op)"
