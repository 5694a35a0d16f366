"""Which enabled policy has which target, as rows of `scaling_targets`: claimed and given back in the
transaction that writes the policy, so of two writers one is refused."""

from __future__ import annotations

from ebbtide.adapters.stores.codec.policies import Bodies, targets_of
from ebbtide.adapters.stores.policy_guards import target_refusal
from ebbtide.adapters.stores.sql.driver import Lent
from ebbtide.adapters.stores.sql.policy_statements import PolicyStatements
from ebbtide.model.policy import Policy


def claim_targets(lent: Lent, sql: PolicyStatements, cluster: str, policy: Policy) -> None:
    """In the order of their names, so two transactions never wait for each other."""
    values = {"cluster": cluster, "policy_id": policy.id}
    wanted = set(targets_of(policy))
    held = {target for (target,) in lent.run(sql.targets_of, values).fetchall()}
    for target in sorted(held | wanted):
        one = {**values, "target": target}
        if target not in wanted:
            lent.run(sql.release_target, one)
            continue
        (holder,) = lent.run(sql.claim_target, one).fetchone()
        if holder == policy.id:
            continue
        found = lent.run(sql.find_policy, {"cluster": cluster, "policy_id": holder}).fetchone()
        other = Bodies(Policy).read(found[0]) if found else None
        # A version that does not know of claims may have disabled, moved or deleted the holder since.
        if other is not None and target in targets_of(other):
            raise target_refusal(policy, target, other)
        lent.run(sql.take_target, one)
