"""How busy the nodes are: what their running pods really use, not what they asked for."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.model.pod import Phase
from ebbtide.simulator.world.inventory import Inventory
from ebbtide.simulator.world.nodes import Nodes
from ebbtide.simulator.world.pods import Pods
from ebbtide.simulator.world.rules import Rules


class Usage:
    def __init__(self, inventory: Inventory, pods: Pods, nodes: Nodes, rules: Rules) -> None:
        self._inventory = inventory
        self._pods = pods
        self._nodes = nodes
        self.rules = rules
        self._stale = inventory.follow()
        self._fraction: dict[str, float] = {}
        self._last: tuple[list[str], float | None, frozenset[str]] | None = None
        self.told: float | None = None
        """What every node that answers is said to use, whatever its pods do."""

    def average(self, node_names: Sequence[str]) -> float | None:
        """The mean of the CPU shares of those that can be measured; None when none can."""
        return self._look(node_names)[0]

    def sampled(self, node_names: Sequence[str]) -> frozenset[str]:
        """Those of them that can be measured."""
        return self._look(node_names)[1]

    def _look(self, node_names: Sequence[str]) -> tuple[float | None, frozenset[str]]:
        """Kept while nothing changed on any node."""
        self._forget_stale()
        if self._last is None or self._last[0] != list(node_names):
            shares = {name: share for name in node_names if (share := self.of(name)) is not None}
            value = sum(shares.values()) / len(shares) if shares else None
            self._last = (list(node_names), value, frozenset(shares))
        return self._last[1], self._last[2]

    def of(self, node_name: str) -> float | None:
        self._forget_stale()
        known = self._fraction.get(node_name)
        if known is None:
            node = self._inventory.nodes.get(node_name)
            if node is None or not self._nodes.works(node_name):
                return None
            if self.told is not None:
                return self.told
            used = self.rules.node_overhead_milli + sum(
                pod.requests.cpu_milli * self._pods.workload_of(pod.uid).spec.use_fraction
                for pod in self._inventory.on(node_name)
                if pod.phase is Phase.RUNNING
            )
            known = self._fraction[node_name] = min(used / max(node.allocatable.cpu_milli, 1), 1.0)
        return known

    def tell(self, share: float | None) -> None:
        """From now on every node uses this share of its CPU; None: measured from the pods again."""
        self.told = share
        self._fraction.clear()
        self._last = None

    def _forget_stale(self) -> None:
        if self._stale:
            self._last = None
            for name in self._stale:
                self._fraction.pop(name, None)
            self._stale.clear()
