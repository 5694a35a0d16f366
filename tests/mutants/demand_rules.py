"""Bugs of the way from demand to a launch: late instances, unsettled demand, ticks that come late."""

from __future__ import annotations

from tests.mutants.plant import Mutant

LATE = "unit:tests/unit/test_late.py"
DEMAND = "unit:tests/unit/test_demand.py"

OF_DEMAND = (
    Mutant(
        "pods stay pending for an instance that is late",
        "offers.expected_placement",
        "is_late(slot, settings, snapshot.at)",
        "False",
        (LATE,),
    ),
    Mutant(
        "an instance whose node is there counts as late",
        "capacity.is_late",
        "slot.state is SlotState.LAUNCHED",
        "True",
        (LATE,),
    ),
    Mutant(
        "there are no spares while instances are late",
        "capacity.spares",
        "ceil(count * late / (late + ready)) if late else 0",
        "0",
        (LATE,),
    ),
    Mutant(
        "spares go beyond the maximum",
        "sizing._add_spares",
        "len(launching.chosen) >= limits.now",
        "False",
        (LATE,),
    ),
    Mutant(
        "nodes with pods go while demand rises",
        "pace.settled",
        "rise <= settings.settled_rise",
        "True",
        (DEMAND,),
    ),
    Mutant(
        "demand from the future never grows old",
        "pace.track_demand",
        "now - window < one.at <= now",
        "now - window < one.at",
        (DEMAND,),
    ),
    Mutant(
        "demand that falls unsettles",
        "pace._largest_rise",
        "(amount - low) / amount",
        "abs(amounts[0] - amount) / amount",
        (DEMAND,),
    ),
    Mutant(
        "pods that have been pending for long enough wait for the heartbeat",
        "loop.sooner",
        "report.due_at is not None",
        "False",
        ("unit:tests/unit/engine/test_loop.py",),
    ),
    Mutant(
        "something urgent waits for the heartbeat",
        "loop.wait_for_next",
        "ttl and nudge.due()",
        "False",
        ("unit:tests/unit/engine/test_loop.py",),
    ),
    Mutant(
        "a burst holds a tick up forever",
        "Nudge.due_at",
        "min(last_at + BATCH_SECONDS, self._first_at + BATCH_MOST_SECONDS)",
        "last_at + BATCH_SECONDS",
        ("unit:tests/unit/engine/test_loop.py",),
    ),
)
