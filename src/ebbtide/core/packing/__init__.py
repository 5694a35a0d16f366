"""The cheapest set of nodes for a set of pods, with a proven lower bound on its cost.

The front is `pack`. Nothing here needs a solver to be imported: numpy and HiGHS are loaded by `pack`
only when the input is large enough to pay for them. The caller says which packer to use.
"""

from __future__ import annotations

from ebbtide.core.packing.pack import pack
from ebbtide.core.packing.problem import group
from ebbtide.core.packing.types import Item, NodeType, PlacementRules, Plan, PlannedNode, Pod, Unplaced

__all__ = ["Item", "NodeType", "PlacementRules", "Plan", "PlannedNode", "Pod", "Unplaced", "group", "pack"]
