# ruff: noqa: E501 - source text is quoted as it stands
"""Bugs in going to zero and coming back: each removes one guard."""

from __future__ import annotations

from tests.mutants.plant import Mutant

IDLE = "core/idle.py"
WAKING = "engine/waking.py"
STEPS = "engine/scaling_steps.py"
SCENE = "explorer:to zero and back"

OF_SLEEP = (
    Mutant(
        "a wake does not touch what is still up",
        WAKING,
        "            before = seen.replicas if before is None else before\n",
        "            before = seen.replicas if before is None else before\n"
        "            if seen.replicas >= target.replicas:\n                return before, seen\n",
        (SCENE,),
    ),
    Mutant(
        "a wake that lost the race to the store is carried out unwritten",
        WAKING,
        "                except Conflict:\n                    continue\n            if not step.acts:\n",
        "                except Conflict:\n                    written = step.state\n            if not step.acts:\n",
        (SCENE,),
    ),
    Mutant(
        "a wake is over before its calls were made",
        WAKING,
        "            if not state.last_scaled_at:\n                # It may be up",
        "            if False:\n                # It may be up",
        ("unit:tests/unit/scaling", SCENE),
    ),
    Mutant(
        "a wake that nobody carried out is left at that",
        IDLE,
        "        if now - (state.last_wake_at or 0) < REDO_SECONDS:\n            return IdleStep(state)\n",
        "        return IdleStep(state)\n",
        (SCENE,),
    ),
    Mutant(
        "what is scaled to zero was not written before",
        STEPS,
        "            written = self._desk.save(policy, step.state, step.stretches, step.says)\n            if step",
        "            written = step.state\n            if step",
        (SCENE,),
    ),
    Mutant(
        "a workload that changed under a sleeper's hands counts as asleep",
        STEPS,
        "                look = look_again(policy, written)\n                step = idle.evaluate(policy, written, look, self._desk.defaults, self._desk.now)\n"
        "                if step.wanted not in (Wanted.FALL, Wanted.FINISH):\n                    break\n                continue\n",
        "                pass\n",
        (SCENE, "unit:tests/unit/scaling"),
    ),
    Mutant(
        "who goes on with half a sleep forgets what was up before",
        IDLE,
        "        Remembered(each.ref, each.replicas or known.get(each.ref, 0)) for each in look.workloads\n",
        "        Remembered(each.ref, each.replicas) for each in look.workloads\n",
        (SCENE,),
    ),
    Mutant(
        "a state is written over another's",
        "adapters/stores/policies_memory.py",
        "            if rev == 0 or rev != state.rev:\n",
        "            if rev == 0:\n",
        (SCENE,),
    ),
    Mutant(
        "a target that could not be read goes on to sleep",
        IDLE,
        "    if look.problem:\n        return IdleStep(state)\n    why = may_not_fall(state, look, now)\n",
        "    why = may_not_fall(state, look, now)\n",
        (SCENE,),
    ),
    Mutant(
        "a signal that is not known is quiet",
        IDLE,
        "    if verdict is Verdict.UNKNOWN:\n",
        "    if False:\n",
        ("unit:tests/unit/scaling",),
    ),
    Mutant(
        "time in which nobody looked counts as idle",
        IDLE,
        "    if now - state.checked_at > look.gap_seconds:\n",
        "    if False:\n",
        ("unit:tests/unit/scaling",),
    ),
)
