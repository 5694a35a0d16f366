"""How a new machine becomes a node: the user data with which it joins at its first boot.

The same slot always gives the same user data, to the letter: a repeated launch must be the same request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from ebbtide.adapters.clouds.joins.agents import agent_script
from ebbtide.adapters.clouds.joins.custom import custom_user_data
from ebbtide.adapters.clouds.joins.eks import eks_user_data
from ebbtide.adapters.clouds.joins.kubeadm import kubeadm_script
from ebbtide.adapters.clouds.joins.machine import (
    Join,
    JoinKind,
    Metadata,
    ec2_metadata,
    hetzner_metadata,
    pool_of,
)
from ebbtide.model.operation import Slot
from ebbtide.model.pool import Pool

__all__ = ["Join", "JoinKind", "Metadata", "ec2_metadata", "hetzner_metadata", "user_data"]


def user_data(join: Join, metadata: Metadata, slot: Slot, pools: Sequence[Pool]) -> str:
    pool = pool_of(slot, pools)
    match join.kind:
        case JoinKind.K3S | JoinKind.RKE2:
            return agent_script(join, metadata, slot, pool)
        case JoinKind.KUBEADM:
            return kubeadm_script(join, metadata, slot, pool)
        case JoinKind.EKS:
            return eks_user_data(join, slot, pool)
        case JoinKind.CUSTOM:
            return custom_user_data(join, metadata, slot, pool)
        case _:
            assert_never(join.kind)
