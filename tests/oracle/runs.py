"""What one run owes: how long it continues, how long it holds its lease, when it must fail, what a run that
was killed costs, when a machine has joined. Rows 33, 34, 36, 41 and 47."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node
from tests.oracle.answers import Ruling, either, no, rule, yes

SHORT_LEASE = 30
NEXT_LOOK = 10
"""Seconds within which a run looks again; with less time than that left, it may as well end."""


@rule("row 33", "yes", "no", "either")
def must_go_on(interrupted: bool, now: float, deadline: float) -> Ruling:
    """ "while a notice is open a run goes on looking and evicting until its own deadline"."""
    if not interrupted:
        return no("no notice is open")
    return yes("a notice is open") if deadline - now > NEXT_LOOK else either("too little time for a look")


@rule("row 33", "yes", "no", "either")
def spot_lease(seconds: int, settings: Settings) -> Ruling:
    """ "the spot lease is short (30 s) and renewed, 180 s is its upper bound": the default of the setting."""
    most = settings.spot_lock_ttl_seconds
    if seconds > most:
        return no(f"longer than {most} s")
    return yes("short") if seconds <= SHORT_LEASE else either("within its upper bound")


@rule("row 34", "yes", "no")
def must_fail(saw_cluster: bool, saw_cloud: bool) -> Ruling:
    """ "a run that could not observe writes its alarm and then fails"."""
    return no("it saw all") if saw_cluster and saw_cloud else yes("it could not observe")


@rule("row 36", "yes", "no")
def attempt_is_spent(deadline: int, now: int, killed: bool) -> Ruling:
    """ "a run that was killed costs no drain attempt"."""
    if now < deadline:
        return no("there is time left")
    return no("nobody was there to drain") if killed else yes("its time was up")


@rule("row 47", "yes", "no")
def has_joined(node: Node | None) -> Ruling:
    """ "Node Ready in the API server is the evidence"."""
    return yes("Ready") if node is not None and node.ready else no("no Ready node")


@rule("row 41", "yes", "no", "either")
def pool_is_awake(pool: str, nodes: Sequence[Node]) -> Ruling:
    """ "ready means a Ready node of that pool"."""
    ready = [n for n in nodes if n.pool == pool and n.ready and not n.control_plane and not n.system]
    if not ready:
        return no("without a Ready node")
    cordoned = all(node.unschedulable for node in ready)
    return either("Ready, and takes no pods") if cordoned else yes("a Ready node")
