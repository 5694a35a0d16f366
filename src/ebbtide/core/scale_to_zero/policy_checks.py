"""What is wrong with a policy that only shows next to the pools and the other policies.

The same for a file, the API and the command line; the place of each problem is the path of its field.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ebbtide.model.idle import IdleState, Phase
from ebbtide.model.policy import Policy, Schedule


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    path: tuple[str | int, ...]
    says: str
    taken: bool = False
    """Whether another policy stands in the way, so changing that one would help as well."""

    @property
    def field(self) -> str:
        """`schedules[0].replicas`."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return "".join(parts).removeprefix(".")


def check_policy(policy: Policy, others: Iterable[Policy], pools: Collection[str]) -> Iterator[PolicyProblem]:
    """`others` are all but this one; where no pool is configured, any may be meant."""
    pool = policy.target.pool
    if pool and pools and pool not in pools:
        yield PolicyProblem(
            ("target", "pool"), f'"{pool}" is not a configured pool; allowed: {", ".join(pools)}'
        )
    for place, schedule in enumerate(policy.schedules):
        if len(policy.target.workloads) != 1 and schedule.replicas and not schedule.wake:
            # One number for a whole group once raised a single database to two.
            says = "a number is for one workload alone; write wake: true, which restores what each had, or 0"
            yield PolicyProblem(("schedules", place, "replicas"), says)
    if policy.gate is not None and pool:
        yield PolicyProblem(("gate",), "a gate is for workloads; name those that its Services select")
    if policy.enabled:
        yield from _targets_taken(policy, [other for other in others if other.enabled])


def _targets_taken(policy: Policy, others: Collection[Policy]) -> Iterator[PolicyProblem]:
    """Two that are active on one target would undo each other's sleep and wake."""
    target = policy.target
    for other in others:
        if target.pool and other.target.pool == target.pool:
            yield _taken(("target", "pool"), f"pool {target.pool}", other)
    holders = {ref: other for other in others for ref in other.target.workloads}
    for place, ref in enumerate(target.workloads):
        if ref in holders:
            yield _taken(("target", "workloads", place), str(ref), holders[ref])
    gates = {ref: other for other in others if other.gate is not None for ref in other.gate.services}
    for place, service in enumerate(policy.gate.services if policy.gate is not None else ()):
        if service in gates:
            # One gate port stands for one policy: the other would never be woken.
            yield _taken(("gate", "services", place), str(service), gates[service], "in the gate")


def _taken(path: tuple[str | int, ...], what: str, other: Policy, role: str = "the target") -> PolicyProblem:
    says = f"{what} is {role} of policy {other.name} already; add it there, or disable or delete that policy"
    return PolicyProblem(path, says, taken=True)


def stranded(policy: Policy, state: IdleState) -> Iterator[PolicyProblem]:
    """What a policy put to sleep and would no longer wake, were this its target from now on."""
    says, kept = "", policy.target.workloads
    if state.phase not in (Phase.ACTIVE, Phase.IDLE):
        says = f"its target is {_SPOKEN[state.phase]}"
    elif left := [one.ref for one in state.remembered if one.replicas and one.ref not in kept]:
        says = f"{left[0]} was put to sleep by it"
    if says:
        says = f"{says}; wake it first and wait until it is ready, then change the target"
        yield PolicyProblem(("target",), says, taken=True)


_SPOKEN = {Phase.FALLING: "going to sleep", Phase.ZERO: "asleep", Phase.WAKING: "waking"}


def stamped(schedules: Sequence[Schedule], known: Sequence[Schedule], now: int) -> tuple[Schedule, ...]:
    """The schedules with the time from which each counts: that of the same schedule in the policy as it was
    before, else now. So what is added or changed never fires for the past, and a policy that is written again
    unchanged, as at every start, forgets nothing."""
    before: dict[Schedule, list[int]] = {}
    for each in known:
        before.setdefault(replace(each, written_at=0), []).append(each.written_at)
    found = []
    for each in schedules:
        stamps = before.get(replace(each, written_at=0)) or [now]
        found.append(replace(each, written_at=stamps.pop(0)))
    return tuple(found)
