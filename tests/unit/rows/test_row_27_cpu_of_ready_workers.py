"""Row 27: the average is over Ready workers, and unknown only when more than a third lack a fresh sample."""

from __future__ import annotations

import pytest

from ebbtide.core.nodes.capacity import why_unknown
from ebbtide.engine.ports import observe
from ebbtide.simulator.world.ports import SimMetrics
from tests.unit.engine.builders import Small

AGE = 180


@pytest.mark.parametrize(
    ("workers", "missing", "known"),
    [(1, 0, True), (1, 1, False), (2, 1, False), (3, 1, True), (3, 2, False), (5, 2, False), (6, 2, True)],
)
def test_up_to_a_third_may_lack_a_sample(workers: int, missing: int, known: bool) -> None:
    names = [f"w{n}" for n in range(workers)]
    why = why_unknown(names, names[missing:], AGE)
    assert (why == "") is known
    if not known:
        assert why.startswith(f"{missing} of {workers} Ready workers have no sample of the last 3 min")
        assert all(name in why for name in names[:missing]), "it says which"


def test_without_a_ready_worker_there_is_nobody_to_ask_for() -> None:
    assert why_unknown([], [], AGE) == "there is no Ready worker to ask for"


def test_many_names_are_cut_short() -> None:
    names = [f"w{n}" for n in range(9)]
    assert why_unknown(names, [], AGE).endswith("w0, w1, w2, w3, w4 and 4 more")


def fall_silent(small: Small, name: str) -> None:
    machine = small.world.nodes.machine_of(name)
    assert machine is not None
    machine.reachable = False
    small.world.nodes.stop_answering(machine)


def test_two_dead_workers_of_three_do_not_hide_the_load_of_the_third() -> None:
    """Their kubelets are silent: for as long as they are dead, they never have a sample again."""
    small = Small()
    for node in small.nodes[:2]:
        fall_silent(small, node.name)
    small.wait(120)
    seen = observe(small.ports, small.settings)
    assert [node.ready for node in seen.cluster.workers].count(False) == 2
    assert (seen.cpu.value is not None, seen.cpu.problem) == (True, "")


def test_a_ready_worker_that_just_fell_silent_is_named_where_too_many_are() -> None:
    small = Small()
    fall_silent(small, small.nodes[0].name)
    names = [node.name for node in small.nodes[:2]]
    reading = SimMetrics(small.world, small.clock).read_cpu(names)
    assert reading.value is None
    assert reading.problem.endswith(f"too many: {names[0]}")
