"""What must have been met on the way: a search that never gets anywhere proves nothing.

States and kinds of work are taken from the code itself, so that what is added later must be reached too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args

from ebbtide.core.operations.machine import Work
from ebbtide.model.operation import RemovalState, SlotState

Met = tuple[str, str]

EFFECTS = (
    "store.acquire", "store.renew", "store.release", "store.write", "store.append", "cluster.cordon",
    "cluster.uncordon", "cluster.evict", "cluster.delete_node", "cloud.launch", "cloud.terminate",
    "inbox.acknowledge",
)  # fmt: skip
STRUCK = ("crash before", "lost reply", "failed", "freeze")
READ = {
    "store.load": ("unread", "freeze"),
    "inbox.receive": ("unread", "freeze"),
    "cluster.read": ("unread", "shown empty", "shown stale", "freeze"),
    "cloud.list_instances": ("unread", "shown empty", "shown stale", "freeze"),
    "cluster.read_pods_on": ("unread", "freeze"),
}
ANSWERED = (
    ("store.write", "Conflict"),
    ("store.write", "LeaseLost"),
    ("store.renew", "LeaseLost"),
    ("store.acquire", "LeaseLost"),
    ("cluster.evict", "BudgetExhausted"),
    ("cloud.launch", "NoCapacity"),
)
HAPPENED = ("machine-dies", "interrupt", "person-cordons")


def required() -> set[Met]:
    wanted: set[Met] = {(verb, strike) for verb in EFFECTS for strike in STRUCK}
    wanted |= {(verb, fault) for verb, faults in READ.items() for fault in faults}
    wanted |= set(ANSWERED)
    wanted |= {("event", kind) for kind in HAPPENED}
    wanted |= {("Removal", state) for state in RemovalState} | {("Slot", state) for state in SlotState}
    wanted |= {("work", kind.__name__) for kind in get_args(Work)}
    wanted |= {("turn", "skip"), ("any", "switch"), ("any", "freeze long"), ("any", "crash after")}
    return wanted


def never_met(met: Collection[Met]) -> list[str]:
    known = set(met) | {("any", how) for _, how in met}
    return [f"{what} {how}" for what, how in sorted(required() - known)]
