"""What the command line is made of, where a process for each case would take too long."""

from __future__ import annotations

import io
import json
import time
from dataclasses import replace
from decimal import Decimal

import pytest
from rich.console import Console

from ebbtide import bootstrap
from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.bootstrap import LineNotifier, SystemClock, TimeOrderedIds
from ebbtide.config import Config
from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.engine.switch import resumed
from ebbtide.entrypoints.api.views import brakes
from ebbtide.entrypoints.cli import WHAT_NOW, main
from ebbtide.entrypoints.cli.demo import news
from ebbtide.entrypoints.cli.look import with_switch
from ebbtide.entrypoints.cli.simulated import new_world
from ebbtide.entrypoints.views.decisions import decision_lines, record_lines
from ebbtide.entrypoints.views.simulations import DemoTold, Size, screen
from ebbtide.errors import ConfigError, EbbtideError
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationReport
from ebbtide.model.decision import Action, Check, Decision, Refusal, Verdict
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import (
    Consolidate,
    Move,
    MoveState,
    Removal,
    RemovalState,
    ScaleDown,
    ScaleUp,
    Slot,
    SlotState,
    Source,
    SourceState,
    Spot,
    SpotKind,
)
from ebbtide.model.pool import RemovalReason
from ebbtide.model.record import DrainBackoff, EmptiedNode, Record, UnfitNode
from ebbtide.model.settings import Settings
from ebbtide.simulator.run.frames import Frame, NodeFrame
from tests.builders import asides, lanes, make_record, make_removal, make_scale_down, make_slot

DRAIN = ScaleDown(
    "op-1", 900, (Removal("i-1", "node-1", state=RemovalState.DRAINING, since=940, attempts=1),), "CPU is low"
)


def config(text: str = "") -> Config:
    return build_config(parse_document(text, "ebbtide.yaml"), {})


def told(record: Record) -> str:
    return "\n".join(line.plain for line in record_lines(record, Settings(), 1000))


def test_ids_grow_also_within_a_millisecond_and_when_the_clock_steps_back() -> None:
    times = iter([100.0, 100.0, 100.0004, 99.0, 100.002])
    new_id = TimeOrderedIds(lambda: next(times))
    made = [new_id() for _ in range(5)]
    assert made == sorted(made)
    assert len(set(made)) == 5
    assert {len(one) for one in made} == {18}


def test_two_processes_do_not_make_the_same_id_at_the_same_time() -> None:
    first, second = TimeOrderedIds(lambda: 5.0), TimeOrderedIds(lambda: 5.0)
    assert len({first() for _ in range(50)} | {second() for _ in range(50)}) == 100


def test_a_notice_is_one_line_plain_or_json() -> None:
    entry = LogEntry("id-1", 0, LogKind.ALARM, "the runner crashed", "op-1")
    plain, as_json = io.StringIO(), io.StringIO()
    LineNotifier(plain).notify(entry)
    LineNotifier(as_json, as_json=True).notify(entry)
    assert plain.getvalue() == "1970-01-01T00:00:00Z alarm: the runner crashed\n"
    assert json.loads(as_json.getvalue()) == {
        "at": "1970-01-01T00:00:00Z",
        "kind": "alarm",
        "id": "id-1",
        "subject": "op-1",
        "says": "the runner crashed",
        "data": {},
    }


def test_a_notice_that_cannot_be_written_stops_nothing() -> None:
    closed = io.StringIO()
    closed.close()
    LineNotifier(closed).notify(LogEntry("id-1", 0, LogKind.ALARM, "lost"))


def test_without_a_simulator_at_hand_a_simulated_cluster_is_refused() -> None:
    with pytest.raises(ConfigError, match="'simulator' cannot be reached from here; nothing was touched"):
        bootstrap.build(config())


def test_tables_on_dynamodb_come_from_their_keys_unless_the_url_names_them() -> None:
    keys = "state_table: s\nlogs_table: l\nstore: {url: '%s'}"
    assert bootstrap.with_tables(config(keys % "dynamodb://")) == "dynamodb://s/l"
    named = "dynamodb://mine/log?region=eu-central-1"
    assert bootstrap.with_tables(config(keys % named)) == named


def test_a_simulated_cluster_begins_with_the_workers_that_the_pools_ask_for() -> None:
    pools = "[{name: a, types: [cpx22], zones: [x, y]}, {name: b, types: [cpx32], zones: [x], min: 1}]"
    settings = config(f"min_workers: 4\npools: {pools}").settings
    workers = new_world(settings, 1_000_000.0).view().workers
    assert sorted((node.pool, node.zone) for node in workers) == [
        ("a", "x"),
        ("a", "x"),
        ("a", "y"),
        ("b", "x"),
    ]
    assert all(node.ready for node in workers)


def test_the_switch_is_written_next_to_a_running_operation() -> None:
    store = MemoryStore(SystemClock(), "cluster")
    store.write(replace(store.load(), **lanes(DRAIN)), None)
    with_switch(store, paused=True, reason="upgrade")
    record = store.load()
    assert (record.paused, record.pause_reason, record.operation) == (True, "upgrade", DRAIN)


def test_resuming_takes_up_what_was_set_aside_unless_something_else_is_open() -> None:
    store = MemoryStore(SystemClock(), "cluster")
    store.write(replace(store.load(), **asides(DRAIN), paused=True), None)
    before = with_switch(store, paused=False)
    record = store.load()
    taken = record.operation
    assert taken is not None
    assert (replace(taken, started_at=DRAIN.started_at), record.set_aside, record.paused) == (
        DRAIN,
        None,
        False,
    )
    assert time.time() - taken.started_at < 60, "it has all its time before it again"
    assert "op-1, which had been set aside, continues" in resumed(before)
    busy = replace(before, **lanes(ScaleDown("op-2", 950)))
    assert "op-1 stays set aside, and removals wait, until op-2 is done" in resumed(busy)


def test_a_record_is_described_with_all_that_holds_it_up() -> None:
    spot = Spot("spot:i-9", "i-9", SpotKind.INTERRUPTION, 950, 1060, replace=False)
    said = told(
        Record(
            rev=3,
            lock_owner="host-1",
            lock_until=1100,
            worker_count=4,
            pod_count=31,
            ticked_at=990,
            last_scale_at=400,
            pending_since=970,
            **lanes(DRAIN),
            spots=(spot,),
            removal_failures=2,
            removal_backoff_until=1060,
            rests=(DrainBackoff("i-7", 2000, "not drained"),),
            paused=True,
            pause_reason="upgrade",
            shrunk_since=980,
        )
    )
    for part in (
        "held by host-1 for another 100 s",
        "4 (2 to 10 allowed), 31 pods on them",
        "some pod pending  for 30 s",
        "removals for another 60 s, after 2 failures in a row",
        "the cluster has looked too small for 20 s",
        "paused (upgrade)",
        "i-7 for another 16 min 40 s: not drained",
        "interruption of i-9, 60 s left; no replacement",
        "scale-down op-1, begun 100 s ago",
        "node-1  DRAINING  for 60 s, 1 drain begun",
    ):
        assert part in said


def test_a_launch_is_described_by_what_is_known_of_it() -> None:
    slots = (
        Slot("k-0", "a", "zone-b", "cpx22", state=SlotState.LAUNCHING, since=990),
        Slot("k-1", "a", "zone-b", "cpx22", state=SlotState.FAILED, instance_id="i-2", reason="no capacity"),
    )
    said = told(Record(**lanes(ScaleUp("op-3", 980, 2, slots, "2 pods wait"))))
    assert "scale-up by 2 op-3, begun 20 s ago" in said
    assert "cpx22 in zone-b  LAUNCHING  for 10 s" in said
    assert "i-2  FAILED: no capacity" in said


def test_a_back_off_names_what_it_is_about() -> None:
    """A pool that fails holds up no other: without its name, every launch seems to wait."""
    every = Record(launch_failures=2, launch_backoff_until=1060)
    some = replace(every, launch_backoff_offers=("gpu", "a/spot/large"))
    assert "launches for another 60 s, after 2 failures in a row" in told(every)
    assert "launches of gpu, a/spot/large for another 60 s" in told(some)
    on = [next(each for each in brakes(record, Settings(), 1000) if each.on) for record in (every, some)]
    assert [each.until for each in on] == [1060, 1060]


def test_a_consolidation_is_described_with_its_nodes_and_moves() -> None:
    operation = Consolidate(
        "op-4",
        900,
        slots=(Slot("k-0", "a", "zone-b", "cpx22", state=SlotState.READY, node_name="node-2"),),
        sources=(Source("i-1", "node-1", "uid-1", state=SourceState.MARKED, since=940),),
        moves=(
            Move("u-1", "default/web-1", "node-1", "k-0", state=MoveState.MOVED, since=980),
            Move("u-2", "default/web-2", "node-1", "k-0", state=MoveState.LEFT, reason="paused"),
        ),
        reason="consolidation: empty node-1",
    )
    leaving = (EmptiedNode("node-9", "uid-9", "i-9", "op-3", 1060),)
    said = told(Record(**lanes(operation), last_consolidation_at=900, leaving=leaving))
    for part in (
        "last consolidation  100 s ago",
        "node-9, for another 60 s at most",
        "consolidation op-4, begun 100 s ago",
        "node-1  MARKED  for 60 s",
        "default/web-1 from node-1 to k-0  MOVED  for 20 s",
        "default/web-2 from node-1 to k-0  LEFT: paused",
    ):
        assert part in said
    vain = Record(last_consolidation_at=900, consolidations_in_vain=1, evictions=(950, 960))
    assert "back-off            consolidation for another 3 h 58 min, after 1 without result" in told(vain)
    assert "pods moved          2 in the last hour, 60 allowed" in told(vain)
    assert "without result" not in told(replace(vain, leaving=leaving))
    aborting = told(Record(**lanes(replace(operation, abort_reason="paused"))))
    assert "consolidation (aborting) op-4" in aborting
    plan = ConsolidationPlan(moves=operation.moves)
    report = ConsolidationReport((), plan=plan)
    decision = Decision("d", 1000, Action.CONSOLIDATE, "why", (), consolidation=report)
    lines = "\n".join(line.plain for line in decision_lines(decision))
    assert "move default/web-1 from node-1 to k-0" in lines


def test_a_decision_is_told_with_its_checks_and_the_nodes_skipped() -> None:
    check = Check("CPU low", False, "CPU 0.41 is not below 0.30")
    verdict = Verdict(Action.SCALE_DOWN, (check,), (Refusal("node-2", "it holds a bare pod"),))
    removal = Removal("i-1", "node-1", zone="a", pool="p")
    decision = Decision("d-1", 60, Action.NOTHING, "because", (verdict,), removals=(removal,))
    said = "\n".join(line.plain for line in decision_lines(decision))
    assert "decision d-1  1970-01-01 00:01:00Z" in said
    assert "– CPU low  CPU 0.41 is not below 0.30" in said
    assert "node-2  it holds a bare pod" in said
    assert "remove node-1 in a, pool p" in said


def test_what_is_done_comes_first_and_a_cross_is_only_for_what_is_wrong() -> None:
    unread = Check("observation complete", False, "the pods could not be listed")
    calm = Check("dead node", False, "there is no dead node")
    verdicts = (
        Verdict(Action.FORGET, (calm,)),
        Verdict(Action.SCALE_DOWN, (unread,)),
        Verdict(Action.ADOPT, (Check("orphan instance", True, "i-7 is alone"),)),
        Verdict(Action.SCALE_UP, (Check("pressure", False, "no pod is pending"),)),
    )
    lines = [line.plain for line in decision_lines(Decision("d", 60, Action.ADOPT, "why", verdicts))]
    heads = [line for line in lines if line.endswith(("  yes", "  no"))]
    assert heads == ["adopt  yes", "scale-up  no", "scale-down  no", "forget  no"]
    marks = [line.split()[0] for line in lines if line.startswith("  ")]
    assert marks == ["✓", "–", "✗", "–"]


def frame(**changes: object) -> Frame:
    nodes = tuple(
        NodeFrame(f"node-{zone}-{number}", zone, "p", "cpx22", "spot", state, 3, 0.5, 0.4)
        for zone in ("a", "b")
        for number, state in enumerate(("ready", "booting", "draining", "leaving", "odd", "ready"))
    )
    doing = "removing node-a-2 (DRAINING)"
    still = Frame(3660.0, nodes, 12, 1, 0.41, doing, "nothing to do", Decimal("1.5"), "EUR", quiet=True)
    return replace(still, **changes)  # type: ignore[arg-type]


def test_the_picture_fits_the_terminal_and_names_what_it_leaves_out() -> None:
    lines = [DemoTold(0, f"sentence {number} " * 30) for number in range(40)]
    for width, height in ((80, 24), (120, 34), (200, 60)):
        out = io.StringIO()
        console = Console(file=out, width=width, height=height, force_terminal=False)
        console.print(screen(frame(), "a day", lines, ("a", "b"), Size(width, height)))
        drawn = out.getvalue().splitlines()
        assert len(drawn) <= height
        assert max(map(len, drawn)) <= width
        assert "01:01" in drawn[0]
    assert "node-a-2" in out.getvalue()
    small = io.StringIO()
    Console(file=small, width=80, height=20).print(screen(frame(), "a day", lines, ("a", "b"), Size(80, 20)))
    assert "and 4 more" in small.getvalue()


def test_a_crash_is_news_and_a_quiet_tick_is_not() -> None:
    assert news(frame()) == []
    crash = frame(says="runner-1 crashed", quiet=False, faulty=True, events=("runner-1 crashed",))
    assert news(crash) == [DemoTold(3660.0, "runner-1 crashed", fault=True)]
    assert [one.says for one in news(frame(says="launch cpx22", quiet=False))] == ["launch cpx22"]


@pytest.mark.parametrize(("kind", "hint"), WHAT_NOW)
def test_every_error_that_is_nobodys_fault_says_what_now(
    kind: type[EbbtideError], hint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise kind("it was so")

    monkeypatch.setattr("ebbtide.config.load", fail)
    with pytest.raises(SystemExit) as ended:
        main(["status"])
    assert ended.value.code == 1
    assert capsys.readouterr().err == f"ebbtide: it was so\n{hint}\n"


def test_a_bug_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("ebbtide.config.load", fail)
    with pytest.raises(SystemExit) as ended:
        main(["status"])
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("ebbtide: this should not have happened: ZeroDivisionError: a bug\n")
    assert "--debug" in said


def test_status_names_what_is_to_be_replaced_and_why() -> None:
    unfit = UnfitNode("a1", RemovalReason.DRIFTED, "its type is cpx22, pool general has cpx32")
    removal = make_removal("a1")
    replacing = make_scale_down(removal, cause=RemovalReason.DRIFTED, replacements=(make_slot(),))
    said = told(make_record(unfit=(unfit,), operation=replacing))
    assert "drifted" in said
    assert "a1: its type is cpx22, pool general has cpx32" in said
    assert "replacement (drifted) op" in said
    aborting = replace(replacing, abort_reason="a1 is no longer drifted")
    assert "replacement (drifted) (aborting)" in told(make_record(operation=aborting))
