"""What is wrong with a policy that only shows beside the pools and the other policies.

The same for a file, the API and the command line; the place of each problem is the path of its field.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ebbtide.model.policy import Policy


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    path: tuple[str | int, ...]
    says: str
    taken: bool = False
    """Whether another policy stands in the way, so that changing that one would help as well."""

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
            ("target", "pool"), f'"{pool}" is no configured pool; allowed: {", ".join(pools)}'
        )
    for place, schedule in enumerate(policy.schedules):
        if not schedule.replicas and not policy.scale_to_zero:
            says = "0 is sleep, and scale_to_zero of the policy is off; switch it on, or give 1 or more"
            yield PolicyProblem(("schedules", place, "replicas"), says)
    if policy.enabled:
        yield from _targets_taken(policy, [other for other in others if other.enabled])


def _targets_taken(policy: Policy, others: Collection[Policy]) -> Iterator[PolicyProblem]:
    """Two that are at work on one target would undo each other's sleep and wake."""
    target = policy.target
    for other in others:
        if target.pool and other.target.pool == target.pool:
            yield _taken(("target", "pool"), f"pool {target.pool}", other)
    holders = {ref: other for other in others for ref in other.target.workloads}
    for place, ref in enumerate(target.workloads):
        if ref in holders:
            yield _taken(("target", "workloads", place), str(ref), holders[ref])


def _taken(path: tuple[str | int, ...], what: str, other: Policy) -> PolicyProblem:
    says = (
        f"{what} is the target of policy {other.name} already; add it there, or disable or delete that policy"
    )
    return PolicyProblem(path, says, taken=True)
