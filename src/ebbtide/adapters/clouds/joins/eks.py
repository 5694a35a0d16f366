"""EKS on Amazon Linux 2023: a `NodeConfig` for nodeadm, which its images run at boot.

There is no token: a node proves who it is with its instance profile. nodeadm itself sets the name of the node
and its provider id, from which the instance is known.
"""

from __future__ import annotations

import json
from typing import Any

from ebbtide.adapters.clouds.joins.machine import Join, labels_of
from ebbtide.model.operation import Slot
from ebbtide.model.pool import Pool

API_VERSION = "node.eks.aws/v1alpha1"
BOUNDARY = "EBBTIDE"


def node_config(join: Join, slot: Slot, pool: Pool) -> dict[str, Any]:
    labels = ",".join(f"{key}={value}" for key, value in labels_of(slot, pool).items())
    kubelet: dict[str, Any] = {"flags": [f"--node-labels={labels}"]}
    if pool.taints:
        kubelet["config"] = {
            "registerWithTaints": [
                {"key": taint.key, "value": taint.value, "effect": str(taint.effect)} for taint in pool.taints
            ]
        }
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": join.cluster_name,
                "apiServerEndpoint": join.server_url,
                "certificateAuthority": join.ca_certificate,
                "cidr": join.service_cidr,
            },
            "kubelet": kubelet,
        },
    }


def eks_user_data(join: Join, slot: Slot, pool: Pool) -> str:
    """MIME, as nodeadm and cloud-init both read it. JSON is YAML too, and needs no quoting of its own."""
    config = json.dumps(node_config(join, slot, pool), indent=2)
    return f"""\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="{BOUNDARY}"

--{BOUNDARY}
Content-Type: application/node.eks.aws

{config}

--{BOUNDARY}--
"""
