"""A stored decision computed again, from everything that it depended on."""

from __future__ import annotations

from ebbtide.core.nodes.decide import decide
from ebbtide.core.packing.pack import why_missing
from ebbtide.engine.journal import read_decision, read_inputs
from ebbtide.errors import SolverMissing
from ebbtide.model.decision import Decision
from ebbtide.model.log import LogEntry


def decide_again(entry: LogEntry) -> tuple[Decision, Decision]:
    """As it is stored, and as it comes out now. `SolverMissing` where it was packed with what is not
    installed here: another packer gives another plan, which would say nothing about the stored one."""
    stored, inputs = read_decision(entry), read_inputs(entry)
    why = why_missing(inputs.settings.packer)
    if why:
        raise SolverMissing(
            f"decision {stored.id} cannot be computed again here: {why}; nothing was touched. "
            "Run: pip install 'ebbtide[solver]'"
        )
    return stored, decide(inputs.snapshot, inputs.record, inputs.settings, inputs.now, stored.id)
