from __future__ import annotations

from decimal import Decimal
from itertools import count

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.core.prices import CostPoint
from ebbtide.engine.notes import REPEAT_SECONDS, CostNotes, read_points
from ebbtide.model.events import CostNoted
from ebbtide.model.log import LogKind
from ebbtide.model.pod import PodPhase
from ebbtide.model.record import Record
from ebbtide.model.snapshot import ClusterView, Snapshot
from ebbtide.narrate import entry_of, facts_in
from tests.builders import NOW, make_pod
from tests.unit.test_costs import SETTINGS, node


class Still:
    def now(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError


def notes(store: MemoryStore, start: int = 0) -> CostNotes:
    numbers = count(start)
    return CostNotes(store, SETTINGS, lambda: f"{next(numbers):06d}")


def seen(at: int, *types: str, problems: tuple[str, ...] = ()) -> Snapshot:
    nodes = tuple(node(f"n{number}", name) for number, name in enumerate(types))
    return Snapshot(at, ClusterView(nodes), problems=problems)


def test_a_cost_is_noted_once_until_it_changes() -> None:
    store = MemoryStore(Still(), "cluster")
    watching = notes(store)
    for snapshot in (seen(0, "small"), seen(60, "small"), seen(120, "small", "huge"), seen(180)):
        watching.looked(snapshot, Record())
    points = read_points(store, 10)
    assert [(point.at, point.per_hour, point.unpriced) for point in points] == [
        (0, {"EUR": Decimal("0.10")}, 0),
        (120, {"EUR": Decimal("0.10")}, 1),
        (180, {}, 0),
    ]
    noted = facts_in(store.read_log([LogKind.COST]), CostNoted)
    cost = {"EUR": "0.10"}
    assert noted[:2] == [CostNoted({}, 0, 0, 0, {}, {}), CostNoted(cost, 1, 2, 0, cost, {"p": cost})]
    assert (points[1].on_demand, points[1].pools) == (points[1].per_hour, {"p": points[1].per_hour})


def test_a_cost_that_an_older_version_noted_says_nothing_about_pools_and_of_prices_on_demand() -> None:
    store = MemoryStore(Still(), "cluster")
    store.append([entry_of("1", 5, CostNoted({"EUR": "0.10"}, 0))])
    assert read_points(store, 1) == [CostPoint(5, {"EUR": Decimal("0.10")})]


def test_a_count_of_pending_pods_is_noted_at_most_once_a_minute() -> None:
    store = MemoryStore(Still(), "cluster")
    watching = notes(store)
    for at, pending in ((0, 0), (30, 5), (60, 7), (70, 0), (130, 0)):
        pods = tuple(make_pod(f"new-{number}", phase=PodPhase.PENDING) for number in range(pending))
        watching.looked(Snapshot(at, ClusterView((node("n0", "small"),), pods)), Record())
    assert [(point.at, point.pending) for point in read_points(store, 10)] == [(0, 0), (60, 7), (130, 0)]


def test_an_unchanged_cost_is_noted_again_after_an_hour() -> None:
    store = MemoryStore(Still(), "cluster")
    watching = notes(store)
    for after in (0, REPEAT_SECONDS - 1, REPEAT_SECONDS):
        watching.looked(seen(NOW + after, "small"), Record())
    assert [point.at - NOW for point in read_points(store, 10)] == [0, REPEAT_SECONDS]


def test_a_new_process_does_not_repeat_what_the_last_one_noted() -> None:
    store = MemoryStore(Still(), "cluster")
    notes(store).looked(seen(0, "small"), Record())
    notes(store, 100).looked(seen(60, "small"), Record())
    assert len(read_points(store, 10)) == 1


def test_what_was_not_read_completely_says_nothing_about_money() -> None:
    store = MemoryStore(Still(), "cluster")
    notes(store).looked(seen(0, problems=("cloud: gone",)), Record())
    assert read_points(store, 10) == []
