"""Bugs in taking Services over and giving them back: each removes one guard."""

from __future__ import annotations

from tests.mutants.plant import Mutant

CRASHES = "unit:tests/simulation/test_gate_crashes.py"
SCENE = "explorer:behind the gate"
UNIT = "unit:tests/unit/scaling/test_takeover.py"

OF_TAKEOVER = (
    Mutant(
        "a workload goes to zero before its Service is taken over",
        "PolicyMachine._do",
        "self.gating.take_over(effect.policy)",
        "pass",
        (SCENE, CRASHES, UNIT),
    ),
    Mutant(
        "a Service is given back while its policy sleeps",
        "may_not_release",
        "state.phase in ASLEEP",
        "False",
        (UNIT, CRASHES),
    ),
    Mutant(
        "a Service is given back before the calls of its wake are answered",
        "may_not_release",
        "state.phase is Phase.WAKING and not state.last_scaled_at",
        "False",
        (CRASHES, UNIT),
    ),
    Mutant(
        "a Service is given back before a pod is ready",
        "may_not_release",
        "not service.ready",
        "False",
        (UNIT,),
    ),
    Mutant(
        "a Service that leads to the gates already is not taken over again",
        "Gating._take",
        "self._services.take_over(seen, self.ports_of(seen), gates)",
        "seen.takeover or self._services.take_over(seen, self.ports_of(seen), gates)",
        (CRASHES,),
    ),
    Mutant(
        "a takeover that nobody asks for stays",
        "Gating.reconcile",
        "ref not in ours",
        "False",
        (UNIT,),
    ),
    Mutant(
        "what sleeps without its takeover stays so",
        "Gating._stand_in",
        "not is_as_wanted(seen.takeover, self.ports_of(seen), gates)",
        "False",
        (UNIT,),
    ),
    Mutant(
        "a policy sleeps although no gate is ready",
        "may_not_take_over",
        "not gates",
        "False",
        (UNIT,),
    ),
)
