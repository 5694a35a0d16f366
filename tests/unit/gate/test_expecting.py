"""What a gate says of a wake before it has asked for one."""

from __future__ import annotations

from typing import Any

from ebbtide.bootstrap.gate import GateProcess
from ebbtide.config.scale_to_zero import GateKeys
from ebbtide.gate.knocking import Eta
from ebbtide.model.idle import NodeFirst, NodeNeed
from tests.policy_harness import PolicyHarness

KEYS = GateKeys(service="ebbtide/ebbtide-gate", namespaces=("default",))


def test_a_gate_knows_from_the_store_how_long_a_wake_takes_and_whether_a_node_comes_first() -> None:
    harness = PolicyHarness()
    policy_id = harness.policies[0].id
    nowhere: Any = None
    process = GateProcess(harness.scaling, nowhere, KEYS, print)

    def expected() -> Eta | None:
        process.take_etas(harness.scaling.etas())
        return process.expects(policy_id)

    assert expected() is None, "it is awake"
    harness.sleep()
    assert expected() == Eta(30, None)
    harness.put(node_first=NodeFirst(NodeNeed.NONE))
    assert expected() == Eta(30, needs_node=False)
    harness.put(node_first=NodeFirst(NodeNeed.LAUNCH, "workers"))
    assert expected() == Eta(150, needs_node=True)
