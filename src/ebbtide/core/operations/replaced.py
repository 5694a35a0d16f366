"""Why a node is not replaced after all: nothing took its place, it is as it should be again, or what took its
place is not enough for its pods.

Asked until its removal is irrevocable. What was launched meanwhile stays as a worker: an ordinary scale-down
takes it when it is not needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.core.nodes import gates
from ebbtide.core.nodes.outdated import outdated
from ebbtide.core.nodes.targets import Elsewhere
from ebbtide.core.nodes.unwell import conditions_of
from ebbtide.core.operations.removals import observed_node
from ebbtide.core.operations.situation import Situation
from ebbtide.model.budget import RemovalReason
from ebbtide.model.node import Node
from ebbtide.model.operation import Removal, RemovalState, ScaleDown

UNTOUCHED = RemovalState.PLANNED
REVOCABLE = (RemovalState.PLANNED, RemovalState.DRAINING, RemovalState.DRAINED)


@dataclass(frozen=True, slots=True)
class NotReplaced:
    says: str
    blamed: bool = False
    """The node is left alone for a while."""
    excused: bool = False
    """That is no failure."""


def why_not_replaced(operation: ScaleDown, situation: Situation) -> NotReplaced | None:
    if operation.cause not in gates.REPLACED:
        return None
    for slot in operation.slots:
        # Crash table: replacement-never-joins.
        if slot.terminated or (slot.settled and not operation.replaced):
            return NotReplaced(f"{slot.key} did not come: {slot.reason}")
    if not gates.plausible(situation.snapshot, situation.record, situation.settings).passed:
        return None  # what is missing may only be hidden by a list that is old or not whole
    for removal in operation.removals:
        node = observed_node(removal, situation)
        # Crash table: replacement-interrupted.
        if node is None or removal.state not in REVOCABLE or situation.notice_for(removal.instance_id):
            continue
        why = _why_stays(operation, removal, node, situation)
        if why is not None:
            return why
    return None


def _why_stays(
    operation: ScaleDown, removal: Removal, node: Node, situation: Situation
) -> NotReplaced | None:
    # Crash table: unwell-recovers.
    if _is_fit_again(operation.cause, node, situation):
        again = "well again" if operation.cause is RemovalReason.UNHEALTHY else f"no longer {operation.cause}"
        return NotReplaced(f"{node.name} is {again}", excused=True)
    # Crash table: replacement-crash.
    if removal.state is not UNTOUCHED or not operation.slots or not operation.replaced:
        return None
    # Another offer than the planned one may have come, or pods that waited may have taken its room.
    snapshot, record, settings = situation.snapshot, situation.record, situation.settings
    checks = (
        gates.keeps_minimum(snapshot, record, settings, (removal,)),
        gates.keeps_zones(snapshot, record, settings, (removal,)),
    )
    why = next((check.says for check in checks if not check.passed), "")
    if not why and node.ready:
        why = Elsewhere(snapshot, record).why_not([node])
    return NotReplaced(f"{node.name} cannot go: {why}", blamed=True) if why else None


def _is_fit_again(cause: RemovalReason, node: Node, situation: Situation) -> bool:
    if cause is RemovalReason.UNHEALTHY:
        instance = situation.snapshot.instance_of.get(node.name)
        return (
            instance is not None
            and instance.alive
            and not conditions_of(node, situation.snapshot, situation.settings)
        )
    found = outdated(node, situation.snapshot, situation.settings, situation.now)
    return node.name in situation.snapshot.instance_of and all(one.cause is not cause for one in found)
