"""Mutants that no test can tell from the original, each with the reason.

An entry names the function and the statement before and after the change, as `python -m tests.mutation`
prints them. It fits wherever that function has that statement, so code can move; one that fits nothing fails
`tests/integration/test_mutation.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Equivalent:
    function: str
    """Dotted, with its module."""
    old: str
    new: str
    reason: str


EQUIVALENT: tuple[Equivalent, ...] = (
    Equivalent(
        "adapters.kube.signing.plan_cordon",
        "if node.spec.unschedulable and owner is not None and (owner.token == token):",
        "if node.spec.unschedulable and owner.token == token:",
        "a node that is cordoned without an owner has been refused as a person's in the line before",
    ),
    Equivalent(
        "core.operations.removals._releasing",
        "if node is None or node.owner is None or (not signed_by(node, operation_id)):",
        "if node is None or not signed_by(node, operation_id):",
        "`signed_by` is false without an owner; the check is there for the type of the next line",
    ),
    Equivalent(
        "core.operations.moves.advance_release",
        "if node is None or node.owner is None or (not same):",
        "if node is None or not same:",
        "`same` is false without an owner; the check is there for the type of the next line",
    ),
    Equivalent(
        "core.nodes.gates._headroom",
        "if settings.headroom and reason not in REPLACED:",
        "if reason not in REPLACED:",
        "without any headroom in the settings `keeps_headroom` finds none missing",
    ),
    Equivalent(
        "core.nodes.gates.wanted_by_pending",
        "if pod.tied_to_node or alike in asked:",
        "if pod.tied_to_node:",
        "a pod like one that was asked for and does not fit does not fit either: it only saves time",
    ),
    Equivalent(
        "engine.scale_to_zero.round.IdleRounds._around",
        "if known is None or (known[1] is not None and now >= known[1]) or (known[0] or 0) > now:",
        "if known is None or (known[1] is not None and now >= known[1]) or (known[0] or 0) >= now:",
        "at the very second of the last time the same two times are found again",
    ),
    Equivalent(
        "engine.scale_to_zero.round.IdleRounds._observed",
        "waked = state.phase is Phase.WAKING and "
        "all((each.ready for each in look.workloads if each.replicas))",
        "waked = state.phase is Phase.WAKING or "
        "all((each.ready for each in look.workloads if each.replicas))",
        "the seconds that a node took are used by the end of a wake; elsewhere they are read for nothing",
    ),
    Equivalent(
        "engine.scale_to_zero.reporting.Reporting._news",
        "if policy is not None and state is not None:",
        "if state is not None:",
        "there is no state without a policy; the check is there for the type of the next lines",
    ),
    Equivalent(
        "entrypoints.api.connections.Room.leave",
        "self._taken.discard(connection); self._idle.pop(connection, None)",
        "self._idle.pop(connection, None); self._taken.discard(connection)",
        "neither of the two looks at what the other changes, and nothing can come in between",
    ),
)
