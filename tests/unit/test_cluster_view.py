"""A view of the cluster goes to other processes as it was read."""

from __future__ import annotations

import pickle

from ebbtide.model.pod import Pod
from ebbtide.model.snapshot import ClusterView, Load
from tests.builders import make_node, make_pod


def test_a_view_is_pickled_without_what_was_worked_out_from_it() -> None:
    """The API worked more out of the same view while the demo sent it to its runner: "dictionary changed size
    during iteration", and the demo stood still."""
    view = ClusterView((make_node("a1"),), (make_pod("web", node_name="a1"),))
    assert view.pods_on["a1"] == view.pods
    assert view.workers == view.nodes
    sent = pickle.loads(pickle.dumps(view))
    assert sent == view
    assert set(vars(sent)) == {"nodes", "pods", "budgets"}
    assert sent.pods_on == view.pods_on


def test_what_is_worked_out_of_the_pods_of_a_node_is_worked_out_once() -> None:
    view = ClusterView((make_node("a1"),), (make_pod("web", node_name="a1"), make_pod("lost", node_name="")))
    asked: list[tuple[Pod, ...]] = []

    def names(pods: tuple[Pod, ...]) -> list[str]:
        asked.append(pods)
        return [pod.name for pod in pods]

    assert [view.loads["a1"].of(names), view.loads["a1"].of(names)] == [["web"], ["web"]]
    assert asked == [view.pods_on["a1"]]
    assert Load(view.pods_on["a1"]).of(names) == ["web"]
    assert [pod.name for pod in view.unplaced_pods] == ["lost"]
