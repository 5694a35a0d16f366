"""The judge of `make chaos-real`: it sees what is wrong, and a slow machine alone is nothing wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.bootstrap.parts import SystemClock
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import SlotState
from tests.chaos_real.drive import Drive
from tests.chaos_real.fleet import Fleet, Machine
from tests.chaos_real.nursery import Child, Nursery
from tests.chaos_real.reading import Json
from tests.chaos_real.runner import Order
from tests.chaos_real.setting import MIN_WORKERS
from tests.chaos_real.totals import RunTotals
from tests.chaos_real.versions import missing_libraries, other_version
from tests.chaos_real.witness import Witness
from tests.servers.kube_api import Api, ApiRefused

HOUR = 3600
NOON = 1_700_000_000
"""Long ago, so nothing that is noted now is near it."""
TAKEN = "i-0"


class Cluster(Api):
    """Answers from two lists."""

    def __init__(self, nodes: list[Any], pods: list[Any]) -> None:
        self.nodes, self.pods = nodes, pods
        self.busy = False

    def get(self, path: str, raw: bool = False) -> Any:
        if self.busy and "pods" in path:
            raise ApiRefused(503, "busy")
        return {"items": self.pods if "pods" in path else self.nodes}


class Cloud(Fleet):
    def __init__(self, count: int) -> None:
        self.forgotten = set()
        self.found = [Machine(f"i-{number}", "running", "a", "general", False) for number in range(count)]

    def machines(self) -> list[Machine]:
        return self.found


class Scene:
    """A cluster of ready workers whose first one is about to be terminated."""

    def __init__(self, workers: int = MIN_WORKERS + 1, pods: tuple[Json, ...] = ()) -> None:
        self.cloud = Cloud(workers)
        self.cluster = Cluster([node(machine.node_name) for machine in self.cloud.found], list(pods))
        self.store = MemoryStore(SystemClock())
        self.witness = Witness(self.cluster, self.cloud, self.store)

    def write(self, after: str, at: int, name: str = "node-i-0") -> None:
        data = {"after": after}
        self.store.append([LogEntry(f"{at}-{after}", at, LogKind.TRANSITION, "", name, data)])

    def intends(self, at: int = NOON) -> None:
        self.write(SlotState.TERMINATING, at)

    def terminate(self) -> list[str]:
        self.witness.terminating([TAKEN])
        return [one.partition(" ")[2] for one in self.witness.violations]

    def uncordon(self, changed_at: int) -> list[str]:
        """Seen as a change of a node that was cordoned before."""
        self.watch("MODIFIED", node("node-i-0", unschedulable=True))
        fields = [
            {"time": stamp(changed_at)},
            {"time": stamp(changed_at + 9 * HOUR), "subresource": "status"},
        ]
        self.watch("MODIFIED", node("node-i-0", managedFields=fields))
        return [one.partition(" ")[2] for one in self.witness.violations]

    def watch(self, kind: str, item: Json) -> None:
        def follow(path: str, version: str, seconds: int) -> Iterator[Any]:
            yield {"type": kind, "object": item}

        self.witness._version = "1"
        self.cluster.follow = follow  # type: ignore[method-assign]
        self.witness.watch_nodes()


def stamp(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def node(name: str, status: str = "True", unschedulable: bool = False, **meta: Any) -> Json:
    metadata = {"name": name, "resourceVersion": "2", "creationTimestamp": stamp(NOON - HOUR), **meta}
    ready = {"type": "Ready", "status": status}
    return {"metadata": metadata, "spec": {"unschedulable": unschedulable}, "status": {"conditions": [ready]}}


def pod(**meta: Any) -> Json:
    return {"metadata": {"namespace": "default", "name": "web", **meta}, "status": {"phase": "Running"}}


WITH_A_POD = f"{TAKEN} was terminated with default/web on its node"


def test_a_removal_that_was_written_and_leaves_enough_is_no_violation() -> None:
    scene = Scene()
    scene.intends()
    assert scene.terminate() == []
    assert scene.witness.removals == 1


@pytest.mark.parametrize("after", [None, SlotState.RECLAIMING, "DRAINED"])
def test_only_what_cannot_be_taken_back_is_an_intent(after: str | None) -> None:
    scene = Scene()
    if after is not None:
        scene.write(after, NOON)
    assert scene.terminate() == [f"{TAKEN} was terminated without an intent in the log"]


def test_a_pod_on_the_node_is_a_violation() -> None:
    scene = Scene(pods=(pod(),))
    scene.intends()
    assert scene.terminate() == [WITH_A_POD]


def test_a_machine_that_joined_after_the_intent_may_have_got_pods() -> None:
    scene = Scene(pods=(pod(),))
    scene.intends(NOON)
    scene.cluster.nodes[0] = node("node-i-0", creationTimestamp=stamp(NOON + 5))
    assert scene.terminate() == []
    assert scene.witness.excused == 1


@pytest.mark.parametrize(
    ("status", "over_at", "seen"),
    [
        ("Unknown", NOON, []),
        ("Unknown", 2 * NOON, [WITH_A_POD]),
        ("True", NOON, [WITH_A_POD]),
    ],
)
def test_only_on_a_silent_node_a_pod_whose_grace_is_over_counts_as_ended(
    status: str, over_at: int, seen: list[str]
) -> None:
    scene = Scene(pods=(pod(deletionTimestamp=stamp(over_at)),))
    scene.intends()
    scene.cluster.nodes[0] = node("node-i-0", status)
    assert scene.terminate() == seen


def test_a_call_that_could_not_be_judged_is_judged_when_it_comes_again() -> None:
    scene = Scene(pods=(pod(),))
    scene.intends()
    scene.cluster.busy = True
    with pytest.raises(ApiRefused):
        scene.terminate()
    scene.cluster.busy = False
    assert scene.terminate() == [WITH_A_POD]


TOO_FEW = f"removing {TAKEN} left {MIN_WORKERS - 1} ready workers, min_workers is {MIN_WORKERS}"


@pytest.mark.parametrize("kind", ["lost", "silent"])
@pytest.mark.parametrize(("after", "seen"), [(0, []), (HOUR, [TOO_FEW])])
def test_who_was_lost_or_silent_just_before_the_intent_could_not_be_counted(
    kind: str, after: int, seen: list[str]
) -> None:
    scene = Scene(workers=MIN_WORKERS)
    getattr(scene.witness, kind)()
    scene.intends(int(time.time()) + after)
    assert scene.terminate() == seen
    assert scene.witness.excused == (not seen)


def test_what_keeps_the_judge_waiting_keeps_the_runners_waiting_too() -> None:
    scene = Scene(workers=MIN_WORKERS)
    scene.witness.lost()
    scene.witness.watch_record()
    scene.witness._looked_at -= 2 * HOUR
    scene.witness.watch_record()
    scene.intends(int(time.time()) + HOUR)
    assert scene.terminate() == []


UNCORDONED = "node node-i-0 was uncordoned after the intent to terminate it"


@pytest.mark.parametrize(("changed_at", "seen"), [(NOON + 3, [UNCORDONED]), (NOON - 5, [])])
def test_an_uncordon_is_judged_by_its_own_time_however_late_it_is_read(
    changed_at: int, seen: list[str]
) -> None:
    scene = Scene()
    scene.intends(NOON)
    assert scene.uncordon(changed_at) == seen


def test_a_launch_that_was_to_be_reclaimed_and_joined_after_all_can_be_given_back_later() -> None:
    scene = Scene()
    scene.write(SlotState.RECLAIMING, NOON)
    assert scene.uncordon(NOON + HOUR) == []


class Cradle(Nursery):
    """Its runners have ended before anybody looks."""

    def __init__(self) -> None:
        pass

    def bear(self, order: Order) -> Child:
        ended = subprocess.Popen(["true"])
        handle = os.pidfd_open(ended.pid)
        ended.wait()
        Path(order.folder, f"{order.owner}.log").write_text("started\nValueError: a field is missing\n")
        return Child(order.owner, ended.pid, handle)


@pytest.mark.parametrize(
    ("version", "held", "told"), [("this", 1, 0), ("other", 0, 1)], ids=["this", "the other"]
)
def test_who_ends_by_itself_is_counted_against_its_own_version(
    tmp_path: Path, version: str, held: int, told: int
) -> None:
    stand: Any = SimpleNamespace(config=tmp_path / "ebbtide.yaml")
    drive = Drive(stand, [Cradle()], seed=1, folder=tmp_path)
    order = Order(f"runner-1-{version}", "", str(tmp_path), 1.0)
    drive._runners = [Cradle().bear(order) for _ in drive._runners]
    drive._strike()
    found = drive._found
    assert (len(found.violations), len(found.of_other), found.kills) == (held, told, 0)
    assert [*found.violations, *found.of_other] == [
        f"runner-1-{version} ended by itself: ValueError: a field is missing"
    ]


@pytest.mark.parametrize(
    ("first", "last", "count"), [(0, 90_000, 0), (100_000, 119_000, 0), (100_000, 121_000, 1)]
)
def test_memory_counts_from_the_first_look_and_a_run_without_one_says_nothing(
    first: int, last: int, count: int
) -> None:
    found = RunTotals(memory=[(first, last)])
    found.judge_memory()
    assert len(found.violations) == count


@pytest.mark.parametrize(
    ("versions", "by_other", "missing"),
    [(1, 0, 0), (2, 0, 1), (2, 7, 0)],
    ids=["one version", "the other never wrote", "both wrote"],
)
def test_a_run_in_which_the_other_version_never_wrote_shows_nothing_of_two_versions(
    versions: int, by_other: int, missing: int
) -> None:
    found = RunTotals(writes=9, launches=1, removals=1, losses=1, sleeps=1, silences=1, by_other=by_other)
    found.judge_coverage(changes=5, versions=versions)
    assert len(found.violations) == missing


def test_a_run_in_which_nothing_happened_says_so_for_each_thing() -> None:
    found = RunTotals()
    found.judge_coverage(changes=0, versions=2)
    assert len(found.violations) == 8


def test_a_version_whose_libraries_are_not_installed_is_not_chosen() -> None:
    project = """
        [project]
        dependencies = ["msgspec>=0.18", "typer>=9999"]
        [project.optional-dependencies]
        kube = ["no-such-client>=30"]
        docs = ["no-such-tool>=1"]
    """
    assert missing_libraries(project) == ["typer>=9999", "no-such-client>=30"]


def test_the_version_that_is_chosen_by_default_can_be_run_here(tmp_path: Path) -> None:
    other = other_version("", tmp_path)
    assert other.sources is not None, other.says
    ports = "import ebbtide.adapters.kube.cluster as cluster; print(cluster.__file__)"
    imported = subprocess.run(
        [sys.executable, "-c", ports],
        env={**os.environ, "PYTHONPATH": str(other.sources)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert imported.stdout.startswith(str(other.sources))
