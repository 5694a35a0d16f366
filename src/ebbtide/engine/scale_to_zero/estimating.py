"""How long until a policy's target is ready, by its state and the log. Used wherever it is
shown: the API, the command line, the gates."""

from __future__ import annotations

from ebbtide.core.scale_to_zero.eta import Eta, NodeTime, eta, node_times, remaining
from ebbtide.engine.scale_to_zero.context import PolicyContext
from ebbtide.errors import EbbtideError
from ebbtide.model.events import Transition
from ebbtide.model.idle import IdleState, Phase
from ebbtide.model.log import LogKind
from ebbtide.narrate import fact_in

STEPS = 400
"""How many transitions of the log are looked through for nodes that were launched."""
KNOWN_SECONDS = 30.0
"""For how long what the log said of nodes counts: launches take longer."""
ASLEEP = (Phase.FALLING, Phase.ZERO, Phase.WAKING)


class Estimating:
    def __init__(self, context: PolicyContext) -> None:
        self._context = context
        self._nodes: tuple[NodeTime, ...] = ()
        self._read_at: float | None = None

    def eta(self, state: IdleState) -> Eta:
        """From now: of a wake in progress what is left of it; else of one that begins now."""
        first = state.node_first if state.phase in ASLEEP else None
        whole = eta(state.wakes, first, self._node_times(), self._context.now)
        if state.phase is not Phase.WAKING:
            return whole
        return remaining(whole, self._context.now - (state.last_wake_at or 0))

    def _node_times(self) -> tuple[NodeTime, ...]:
        """Where the log cannot be read, what was known before: an estimate is no reason to fail."""
        now = self._context.ports.clock.now()
        if self._read_at is None or not 0 <= now - self._read_at < KNOWN_SECONDS:
            try:
                entries = self._context.ports.store.read_log([LogKind.TRANSITION], limit=STEPS)
            except EbbtideError:
                return self._nodes
            facts = ((entry.at, fact_in(entry, Transition)) for entry in entries)
            self._nodes = node_times((at, fact) for at, fact in facts if fact is not None)
            self._read_at = now
        return self._nodes
