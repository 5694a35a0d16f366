"""The phases of a policy's target, and which may follow which.

Every state that is written obeys this table: a wake is answered before its target can sleep again.
"""

from __future__ import annotations

from ebbtide.model.idle import IdleState, Phase

ALLOWED: dict[Phase, frozenset[Phase]] = {
    Phase.ACTIVE: frozenset({Phase.IDLE, Phase.FALLING, Phase.WAKING}),
    Phase.IDLE: frozenset({Phase.ACTIVE, Phase.FALLING, Phase.WAKING}),
    Phase.FALLING: frozenset({Phase.ZERO, Phase.WAKING}),
    Phase.ZERO: frozenset({Phase.WAKING, Phase.ACTIVE}),
    Phase.WAKING: frozenset({Phase.ACTIVE}),
}


def check_invariants(before: IdleState, after: IdleState) -> tuple[str, ...]:
    broken: tuple[str, ...] = ()
    if after.phase is not before.phase and after.phase not in ALLOWED[before.phase]:
        broken += (f"policy {before.policy_id} went from {before.phase} to {after.phase}",)
    # Crash table: wake-while-falling. A wake that was counted is never forgotten by a later write.
    if after.wake_count < before.wake_count:
        broken += (f"policy {before.policy_id} forgot {before.wake_count - after.wake_count} wakes",)
    return broken
