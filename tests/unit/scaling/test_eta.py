"""How long a wake takes: expected by hand from a written history."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.scale_to_zero.eta import (
    DEFAULT_NODE_SECONDS,
    DEFAULT_POD_SECONDS,
    LATE_SECONDS,
    Learned,
    NodeTime,
    eta,
    node_times,
    percentile,
    remaining,
)
from ebbtide.model.events import OperationKind, PartKind, Transition
from ebbtide.model.idle import NodeFirst, NodeNeed, WakeTime
from tests.builders import NOW

FITS = NodeFirst(NodeNeed.NONE)
SPOT_FIRST = NodeFirst(NodeNeed.LAUNCH, "spot")

# Twenty wakes, oldest first. Without a node they took 11 to 28 s; four of them waited for one: 60, 70, 80 and
# 90 s of 81 to 117 s. What is left for the pods is 21, 23, 25 and 27 s.
WITHOUT_NODE = [WakeTime(NOW - 9000 + 60 * n, 11.0 + n) for n in range(16)]
WITH_NODE = [
    WakeTime(NOW - 600, 81, 60),
    WakeTime(NOW - 500, 93, 70),
    WakeTime(NOW - 400, 105, 80),
    WakeTime(NOW - 300, 117, 90),
]
HISTORY = [*WITHOUT_NODE, *WITH_NODE]

SPOT_NODES = [NodeTime("spot", 2, 40 + n, 8) for n in range(10)]  # 50 to 59 s
OTHER_NODES = [NodeTime("stock", 1, 20, 4)]  # 25 s


def test_without_a_node_it_is_the_pods_part_that_19_of_20_stay_below() -> None:
    # Pods' parts in order: 11 to 26 (16 of them), 21, 23, 25, 27. The 19th of 20 in order is 26.
    found = eta(HISTORY, FITS, [], NOW)
    assert (found.seconds, found.node) == (26, None)
    assert (found.pods.learned, found.pods.count) == (Learned.WAKES, 20)
    assert found.says == "about 26 s (measured on its last 20 wakes)"


def test_with_a_node_its_part_of_the_policys_own_wakes_is_added() -> None:
    # The nodes' parts are 60, 70, 80, 90: the 95th percentile by nearest rank is the 4th.
    found = eta(HISTORY, SPOT_FIRST, SPOT_NODES, NOW)
    assert (found.seconds, found.node and found.node.seconds) == (26 + 90, 90)
    assert found.says == (
        "about 2 min, including 90 s until a new node of pool spot is Ready "
        "(pods: measured on its last 20 wakes; node: measured on its last 4 wakes)"
    )


def test_another_quantile_may_be_asked_for() -> None:
    # The 10th of 20 pods' parts in order (11 … 20) and the 2nd of 4 nodes' parts.
    assert eta(HISTORY, FITS, [], NOW, share=0.5).seconds == 20
    assert eta(HISTORY, SPOT_FIRST, [], NOW, share=0.5).seconds == 20 + 70


def test_a_policy_that_never_needed_a_node_takes_the_time_of_the_pool() -> None:
    # Ten nodes of the pool took 50 to 59 s: the 10th is the 95th percentile.
    found = eta(WITHOUT_NODE, SPOT_FIRST, [*OTHER_NODES, *SPOT_NODES], NOW)
    assert (found.seconds, found.node and found.node.learned) == (26 + 59, Learned.POOL)
    assert "node: measured on 10 nodes of the pool" in found.says


def test_a_pool_that_never_launched_takes_the_time_of_the_others() -> None:
    found = eta(WITHOUT_NODE, SPOT_FIRST, OTHER_NODES, NOW)
    assert (found.seconds, found.node and found.node.learned) == (26 + 25, Learned.OTHER_POOLS)
    assert "node: measured on 1 node of other pools" in found.says


def test_what_was_never_timed_is_a_default_and_says_so() -> None:
    plain = eta([], FITS, [], NOW)
    assert (plain.seconds, plain.pods.learned) == (DEFAULT_POD_SECONDS, Learned.DEFAULT)
    assert plain.says == "about 30 s (assumed, no wake has been timed yet)"
    node = eta([], SPOT_FIRST, [], NOW)
    assert node.seconds == DEFAULT_POD_SECONDS + DEFAULT_NODE_SECONDS
    assert node.says == (
        "about 2 min 30 s, including 2 min until a new node of pool spot is Ready "
        "(pods: assumed, no wake has been timed yet; node: assumed, no node has been timed yet)"
    )


def test_where_nothing_is_known_of_the_nodes_most_wakes_decide() -> None:
    assert eta(HISTORY, None, SPOT_NODES, NOW).node is None
    often = eta([*WITHOUT_NODE[:3], *WITH_NODE], None, SPOT_NODES, NOW)
    assert often.seconds == 27 + 90
    assert "until a new node is Ready, as for most of its wakes" in often.says
    assert eta([], None, [], NOW).seconds == DEFAULT_POD_SECONDS


def test_of_a_node_on_its_way_only_what_is_left_counts() -> None:
    coming = NodeFirst(NodeNeed.COMING, "spot", since=NOW - 30)
    found = eta(WITHOUT_NODE, coming, SPOT_NODES, NOW)
    assert found.seconds == 26 + (59 - 30)
    assert "29 s until the node of pool spot that is on its way is Ready" in found.says
    late = NodeFirst(NodeNeed.COMING, "spot", since=NOW - 600)
    assert eta(WITHOUT_NODE, late, SPOT_NODES, NOW).seconds == 26 + 1
    ahead = NodeFirst(NodeNeed.COMING, "spot", since=NOW + 600)
    assert eta(WITHOUT_NODE, ahead, SPOT_NODES, NOW).seconds == 26 + 59


def test_a_target_that_no_node_would_take_is_said_to_stay_asleep() -> None:
    found = eta(HISTORY, NodeFirst(NodeNeed.NEVER, why="needs 9000m CPU, 4000m free"), [], NOW)
    assert found.says == (
        "it cannot start: no node that may be launched would take it (needs 9000m CPU, 4000m free)"
    )


def test_a_wake_in_progress_has_what_is_left_and_one_that_is_late_says_so() -> None:
    whole = eta(HISTORY, SPOT_FIRST, [], NOW)
    assert remaining(whole, 0) == whole
    assert remaining(whole, 16).seconds == 100
    assert (remaining(whole, 115.5).seconds, remaining(whole, 115.5).late) == (1, False)
    late = remaining(whole, 116)
    assert (late.seconds, late.late, late.says) == (LATE_SECONDS, True, "it takes longer than expected")


def test_nothing_is_ready_in_no_time() -> None:
    assert eta([WakeTime(NOW, 0.1)], FITS, [], NOW).seconds == 1


def step(at: int, after: str, key: str = "k-0", **more: str) -> tuple[int, Transition]:
    fields = {"pool": "spot", **more}
    return at, Transition("op", OperationKind.SCALE_UP, PartKind.LAUNCH, "x", "", after, key=key, **fields)


def test_the_time_of_a_node_is_read_from_its_steps_in_the_log_in_any_order() -> None:
    steps = [
        step(160, "READY"),
        step(150, "JOINED"),
        step(104, "LAUNCHED"),
        step(100, "LAUNCHING"),
    ]
    assert node_times(steps) == (NodeTime("spot", 4, 46, 10),)
    assert node_times(steps)[0].seconds == 60


def test_time_without_capacity_is_part_of_a_launch() -> None:
    tries = [step(100, "LAUNCHING"), step(101, "RESERVED"), step(130, "LAUNCHING"), step(132, "LAUNCHED")]
    assert node_times([*tries, step(180, "JOINED"), step(181, "READY")]) == (NodeTime("spot", 32, 48, 1),)


def test_a_launch_that_is_not_ready_or_of_which_the_beginning_is_lost_is_not_made_up() -> None:
    assert node_times([step(100, "LAUNCHING"), step(104, "LAUNCHED"), step(150, "JOINED")]) == ()
    assert node_times([step(150, "JOINED"), step(160, "READY")]) == ()
    joined_and_ready = [step(104, "LAUNCHED"), step(160, "READY")]
    assert node_times(joined_and_ready) == (NodeTime("spot", 0, 56, 0),)


def test_steps_of_an_earlier_version_are_told_apart_by_their_instance() -> None:
    old = [
        step(at, after, key="", pool="", instance_id=who)
        for who, start in (("i-1", 100), ("i-2", 110))
        for at, after in ((start, "LAUNCHED"), (start + 30, "JOINED"), (start + 35, "READY"))
    ]
    assert node_times(old) == (NodeTime("", 0, 30, 5), NodeTime("", 0, 30, 5))


def test_removals_and_steps_without_a_name_say_nothing_about_launches() -> None:
    gone = Transition("op", OperationKind.SCALE_DOWN, PartKind.REMOVAL, "n", "", "READY", key="k")
    assert node_times([(1, gone), step(2, "READY", key="")]) == ()


@pytest.mark.parametrize("share", [0.5, 0.95])
@given(values=st.lists(st.floats(0, 1000), min_size=1, max_size=40))
def test_a_quantile_is_one_of_the_values_and_few_are_above_it(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(1 for value in values if value > found) <= (1 - share) * len(values) + 1e-9
