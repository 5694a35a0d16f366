"""Bugs in going to zero and coming back: each removes one guard."""

from __future__ import annotations

from tests.mutants.plant import Mutant

SCENE = "explorer:to zero and back"

OF_SLEEP = (
    Mutant(
        "a wake does not touch what is still up",
        "PolicyMachine._restore",
        "before = seen.replicas if before is None else before",
        """
        before = seen.replicas if before is None else before
        if seen.replicas >= target.replicas:
            return WorkloadOutcome(effect, OutcomeKind.DONE, previous=before)
        """,
        (SCENE,),
    ),
    Mutant(
        "a wake that lost the race to the store is carried out unwritten",
        "PolicyMachine.write",
        "self.state = self.context.save(self.policy, step, self.once)",
        """
        try:
            self.state = self.context.save(self.policy, step, self.once)
        except Conflict:
            if step.state.phase is not Phase.WAKING:
                raise
            self.state = step.state
        """,
        (SCENE,),
    ),
    Mutant(
        "a wake is over before its calls were made",
        "machine.ready",
        "not state.last_scaled_at",
        "False",
        (
            "unit:tests/unit/scaling",
            SCENE,
        ),
    ),
    Mutant(
        "a wake that nobody carried out is left at that",
        "_waking",
        """
        if now - (state.last_wake_at or 0) < REDO_SECONDS:
            return IdleStep(state)
        """,
        "return IdleStep(state)",
        (SCENE,),
    ),
    Mutant(
        "what is scaled to zero was not written before",
        "PolicyMachine.write",
        "self.state = self.context.save(self.policy, step, self.once)",
        """
        if step.state.phase is Phase.FALLING:
            self.state = step.state
            return self.state
        self.state = self.context.save(self.policy, step, self.once)
        """,
        (SCENE,),
    ),
    Mutant(
        "a workload that changed under a sleeper's hands counts as asleep",
        "PolicyMachine._attempt",
        "WorkloadOutcome(effect, OutcomeKind.CHANGED, str(error))",
        "WorkloadOutcome(effect, OutcomeKind.DONE)",
        (
            SCENE,
            "unit:tests/unit/scaling",
        ),
    ),
    Mutant(
        "who continues with half a sleep forgets what was up before",
        "fall",
        "each.replicas or known.get(each.ref, 0)",
        "each.replicas",
        (SCENE,),
    ),
    Mutant(
        "a state is written over another's",
        "MemoryPolicies.write_state",
        "rev == 0 or rev != state.rev",
        "rev == 0",
        (SCENE,),
    ),
    Mutant(
        "a target that could not be read is put to sleep all the same",
        "_falling",
        """
        if look.problem:
            return IdleStep(state)
        """,
        "",
        (SCENE,),
    ),
    Mutant(
        "a signal that is not known is quiet",
        "_awake",
        "verdict is ActivityVerdict.UNKNOWN",
        "False",
        ("unit:tests/unit/scaling",),
    ),
    Mutant(
        "time in which nobody looked counts as idle",
        "_idle",
        "now - state.checked_at > look.gap_seconds",
        "False",
        ("unit:tests/unit/scaling",),
    ),
    Mutant(
        "a pool that was removed while it slept lowers the minimum",
        "settings_for",
        "{pool.name for pool in pools if pool.may_be_empty}",
        "{name for name, (_, state) in known.items() if name and state.phase is Phase.ZERO}",
        ("unit:tests/unit/scaling/test_floor.py", "story:a-sleeping-pool-that-is-removed"),
    ),
)
