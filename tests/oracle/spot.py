"""Answers to spot notices: whether a node is replaced, and when it is emptied. Rows 10, 30, 33 and 35."""

from __future__ import annotations

from tests.oracle import nodes, scale_down
from tests.oracle.answers import Ruling, either, no, rule, strictest
from tests.oracle.facts import By, Moment


@rule("rows 10, 35", "yes", "no", "either")
def may_replace(moment: Moment, node_name: str, pool: str, by: By) -> Ruling:
    """ "a node already being removed is only hurried along, with no replacement; total stays within max. A
    rebalance recommendation is voluntary and passes every scale-down gate"; "all gates and the drain rules
    are asked before anything is launched"."""
    if node_name in moment.going:
        return no("it is being removed already")
    room = nodes.within_maximum(moment, [pool])
    if by is By.INTERRUPTION:
        return room
    if moment.named(node_name) is None:
        return either("its node is not known")
    if moment.held:
        return either("whether a pause stops a replacement is not said")
    return strictest((room, scale_down.can_be_drained(moment, node_name, by)))
