"""Bugs of the two lanes: launches next to removals, extension, giving way, and what the cloud refuses."""

from __future__ import annotations

from tests.mutants.plant import Mutant

UNIT = "unit:tests/unit/test_lanes.py tests/unit/test_refused.py"
MACHINES = "unit:tests/unit/operations"
TICKS = "unit:tests/unit/engine/test_lanes.py"
UNDERUSED = "unit:tests/unit/test_next_to_launches.py"

OF_LANES = (
    Mutant(
        "nodes are chosen to go while others are launched",
        "question.no_operation",
        "none_in_progress(q.record.operation)",
        "none_in_progress(q.record.removing)",
        (UNIT,),
    ),
    Mutant(
        "pods are moved next to a launch that counts on the room",
        "_UnderusedChoice._why_not_now",
        "launching is not None and not carries_nothing(node, self._snapshot)",
        "False",
        (UNDERUSED,),
    ),
    Mutant(
        "a node that a launch still follows has two owners",
        "_UnderusedChoice._is_launched",
        "instance is not None and instance.id in followed",
        "False",
        (UNDERUSED,),
    ),
    Mutant(
        "an empty node goes although a pending pod may go there",
        "gates.none_pending_for",
        "wanted = wanted_by_pending(node, snapshot)",
        'wanted = ""',
        (UNDERUSED,),
    ),
    Mutant(
        "a machine that never joined is counted on",
        "coming_slots",
        "slot.state is not SlotState.RECLAIMING",
        "True",
        (UNIT,),
    ),
    Mutant(
        "a launch is extended with every tick, without a cooldown",
        "last_scaling",
        "max(record.last_scale_at, asked_at, operation.ready_at)",
        "record.last_scale_at",
        (UNIT,),
    ),
    Mutant(
        "what fails while a launch is open starts no back-off",
        "launch_backoff",
        "operation is None",
        "True",
        (UNIT, "table:endless"),
    ),
    Mutant(
        "a pool that is sold out holds up every launch",
        "launch_backoff",
        "_held_up(missed, before, latest)",
        "()",
        ("unit:tests/unit/test_launch_backoff.py", "story:a-pool-that-is-sold-out"),
    ),
    Mutant(
        "a pool whose nodes never join is launched again and again",
        "_held_up",
        "(slot.pool,)",
        "()",
        ("unit:tests/unit/test_launch_backoff.py",),
    ),
    Mutant(
        "nodes of another pool stand in for one that is sold out",
        "without_minimum",
        "not without",
        "True",
        ("unit:tests/unit/test_launch_backoff.py",),
    ),
    Mutant(
        "a launch that is extended forgets the slots it had",
        "scale_up.extend",
        "operation.slots + decision.slots",
        "decision.slots",
        (TICKS,),
    ),
    Mutant(
        "a slot that never joined starts the cooldown again",
        "scale_up.close",
        "max(record.last_scale_at, operation.ready_at)",
        "now",
        ("unit:tests/unit/operations/test_scale_up.py",),
    ),
    Mutant(
        "a node is drained to its end although the minimum needs it",
        "scale_down._why_abort",
        "why_may_not_go(operation, situation) if operation.replaced else None",
        "None",
        ("unit:tests/unit/operations/test_yielding.py",),
    ),
    Mutant(
        "a node is drained to its end although its pool is no longer configured",
        "stopping.why_may_not_go",
        "settings.pool_named(removal.pool) is None",
        "False",
        ("unit:tests/unit/operations/test_yielding.py",),
    ),
    Mutant(
        "pods on nodes that take no others keep nobody away",
        "placement_of",
        "node.name not in left_out",
        "node.name not in left_out and node.ready and not node.unschedulable",
        ("unit:tests/unit/test_fit_neighbours.py",),
    ),
    Mutant(
        "a removal that the rest cannot do without is a failure",
        "stopping.why_yield",
        "drained and snapshot.cpu.value is not None and not fits.passed",
        "False",
        ("unit:tests/unit/operations/test_yielding.py",),
    ),
    Mutant(
        "a removal gives way to pods that fit elsewhere",
        "_pod_that_needs",
        "fits_here and placement.first_fit(pod, elsewhere) is None",
        "fits_here",
        ("unit:tests/unit/operations/test_yielding.py",),
    ),
    Mutant(
        "what gave way to demand backs off",
        "_abort_if_needed",
        "operation.excused or abort.excused",
        "operation.excused",
        ("unit:tests/unit/operations/test_yielding.py",),
    ),
    Mutant(
        "what removed nothing does not back off",
        "scale_down.close",
        "not operation.excused",
        "any(r.blamed for r in kept)",
        (MACHINES,),
    ),
    Mutant(
        "what is set aside is forgotten when its operation closes",
        "orphans.set_aside",
        "one.state is RemovalState.SET_ASIDE",
        "False",
        (MACHINES, TICKS),
    ),
    Mutant(
        "the cordon of what was refused counts as a stray one",
        "orphans._open_ids",
        "{one.operation_id for one in record.refused}",
        "set()",
        ("unit:tests/unit/test_refused.py",),
    ),
    Mutant(
        "a stray mark is released next to the answer to a notice",
        "stray_cordons",
        "node.uid not in answered",
        "True",
        ("unit:tests/unit/test_orphans.py",),
    ),
    Mutant(
        "the answer to a notice waits for the mark of a closed operation",
        "removals._cordon",
        "stale is not None and _cloud_is_reclaiming(removal, operation_id, situation)",
        "False",
        (MACHINES,),
    ),
    Mutant(
        "what was set aside counts as capacity",
        "capacity.open_removals",
        "(*removals_in_progress(record), *_halted(record))",
        "removals_in_progress(record)",
        (UNIT,),
    ),
    Mutant(
        "what was set aside holds up the budget",
        "gates.in_disruption",
        "removals_in_progress(record)",
        "open_removals(record)",
        ("unit:tests/unit/test_gates.py",),
    ),
    Mutant(
        "a refusal to terminate is told to nobody",
        "facts.alarms",
        "isinstance(part, Removal) and part.refused_since and part.instance_id not in known",
        "False",
        (TICKS,),
    ),
    Mutant(
        "a crash in one lane counts against the other",
        "record_machine._count_run",
        "with_runs(lane, others, runs_in(lane, record) + 1)",
        "with_runs(Lane.REMOVING, record, record.unclean_removal_runs + 1)",
        (TICKS,),
    ),
    Mutant(
        "both lanes are written in the format of one",
        "Record.format_version",
        "both or aside or halted or self.refused",
        "aside or halted or self.refused",
        (UNIT,),
    ),
)
