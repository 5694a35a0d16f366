"""What must have been met on the way: a search that never gets anywhere proves nothing.

States and kinds of work are taken from the code itself, so what is added later must be reached too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args, get_type_hints

from ebbtide.core.operations import facts
from ebbtide.core.operations.machine import Work
from ebbtide.engine.ports import Observers
from ebbtide.model.decision import Action, Decision
from ebbtide.model.idle import Phase
from ebbtide.model.operation import Operation, Spot

Met = tuple[str, str]

ELSEWHERE: dict[str, str] = {
    Action.ADOPT: "test_incidents, orphans after a crash: no scene loses its record",
}
"""States and actions that no scene leads to, and which test does."""

EFFECTS = (
    "store.acquire", "store.renew", "store.release", "store.write", "store.append", "cluster.cordon",
    "cluster.uncordon", "cluster.evict", "cluster.delete_node", "cloud.launch", "cloud.terminate",
    "inbox.acknowledge", "policies.write_state", "workloads.scale", "services.take_over", "services.release",
)  # fmt: skip
STRUCK = ("crash before", "lost reply", "failed", "freeze")
READ = {
    "store.load": ("unread", "freeze"),
    "inbox.receive": ("unread", "freeze"),
    "cluster.read": ("unread", "shown empty", "shown stale", "shown holed", "freeze"),
    "cloud.list_instances": ("unread", "shown empty", "shown stale", "freeze"),
    "cluster.read_pods_on": ("unread", "freeze"),
    "policies.list_policies": ("unread", "freeze"),
    "policies.list_states": ("unread", "freeze"),
    "policies.find_policy": ("unread", "freeze"),
    "policies.find_state": ("unread", "freeze"),
    "workloads.read": ("unread", "freeze"),
    "signals.read_values": ("unread", "freeze"),
    "services.read": ("unread", "freeze"),
    "services.gates": ("unread", "freeze"),
    "services.list_taken": ("unread", "freeze"),
}
ANSWERED = (
    ("store.write", "Conflict"),
    ("store.write", "LeaseLost"),
    ("store.renew", "LeaseLost"),
    ("store.acquire", "LeaseLost"),
    ("cloud.launch", "NoCapacity"),
    ("cloud.terminate", "Final"),
    ("policies.write_state", "Conflict"),
    ("workloads.scale", "Conflict"),
    ("services.release", "Conflict"),
)
HAPPENED = ("machine-dies", "interrupt", "person-cordons", "unprotect", "answers-again")


class Witness(Observers):
    """Notes which work is begun and through which states its parts go."""

    def __init__(self, met: set[Met]) -> None:
        super().__init__()
        self._met = met

    def decided(self, decision: Decision) -> None:
        self._met.add(("decision", decision.action))

    def began(self, work: Operation | Spot) -> None:
        self._note(work)

    def advanced(self, before: Operation | Spot, after: Operation | Spot) -> None:
        self._note(after)

    def _note(self, work: Operation | Spot) -> None:
        self._met.add(("work", type(work).__name__))
        self._met.update((type(part).__name__, part.state) for part in facts.parts(work))


def required() -> set[Met]:
    wanted: set[Met] = {(verb, strike) for verb in EFFECTS for strike in STRUCK}
    wanted |= {(verb, fault) for verb, faults in READ.items() for fault in faults}
    wanted |= set(ANSWERED)
    wanted |= {("event", kind) for kind in HAPPENED}
    wanted |= {("work", kind.__name__) for kind in get_args(Work)}
    wanted |= {("decision", action) for action in Action if action not in ELSEWHERE}
    for part in get_args(facts.Part):
        wanted |= {
            (part.__name__, state) for state in get_type_hints(part)["state"] if state not in ELSEWHERE
        }
    wanted |= {("phase", phase) for phase in Phase}
    wanted |= {
        ("turn", "wake"),
        ("turn", "skip"),
        ("any", "switch"),
        ("any", "freeze long"),
        ("any", "crash after"),
    }
    return wanted


def never_met(met: Collection[Met]) -> list[str]:
    known = set(met) | {("any", how) for _, how in met}
    return [f"{what} {how}" for what, how in sorted(required() - known)]
