"""How a new machine becomes a node: the user data with which it joins at its first boot.

    k3s, rke2  an agent that reads one file of YAML; both use the same keys in it
    kubeadm    a `JoinConfiguration` (v1beta4, Kubernetes 1.31 or later) with a bootstrap token. The image has
               kubeadm, the kubelet and a container runtime; `join.install_command` may bring them. The hash
               of the cluster's certificate is in the user data: it is public, and without it a machine could
               be led to another API server.
    eks        a `NodeConfig` for nodeadm, which the images of Amazon Linux 2023 run at boot. There is no
               token: a node proves who it is with its instance profile. nodeadm sets its name and provider
               id.
    custom     a template of the user's own: `{{ name }}` stands for a value, `{{ name | sh }}` quotes it as
               one word of shell, `{{ name | json }}` as a string of JSON, which YAML reads, too. Everything
               else stays to the letter, so a script needs no escaping.

The same slot always gives the same user data, to the letter: a repeated launch must be the same request.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never
from urllib.parse import urlsplit

from ebbtide.adapters.clouds import identity
from ebbtide.adapters.clouds.identity import (
    Join,
    JoinKind,
    Metadata,
    ec2_metadata,
    hetzner_metadata,
    labels_of,
    pool_of,
    taints_of,
)
from ebbtide.core.join_template import PLACE
from ebbtide.model.operation import Slot
from ebbtide.model.pool import Pool

__all__ = ["Join", "JoinKind", "Metadata", "ec2_metadata", "hetzner_metadata", "user_data"]

HTTPS = 443
DEFAULT_FILE = "/etc/ebbtide/kubeadm-join.yaml"
API_VERSION = "node.eks.aws/v1alpha1"
BOUNDARY = "EBBTIDE"


@dataclass(frozen=True, slots=True)
class Agent:
    name: str
    folder: str
    """Shell: where its configuration is read from."""
    version_variable: str
    install: str


AGENTS = {
    JoinKind.K3S: Agent(
        "K3s",
        "${K3S_CONFIG_FOLDER:-/etc/rancher/k3s}",
        "INSTALL_K3S_VERSION",
        "curl -sfL https://get.k3s.io | sh -s - agent",
    ),
    JoinKind.RKE2: Agent(
        "RKE2",
        "${RKE2_CONFIG_FOLDER:-/etc/rancher/rke2}",
        "INSTALL_RKE2_VERSION",
        "curl -sfL https://get.rke2.io | INSTALL_RKE2_TYPE=agent sh -\n"
        "systemctl enable --now rke2-agent.service",
    ),
}


def agent_script(join: Join, metadata: Metadata, slot: Slot, pool: Pool) -> str:
    agent = AGENTS[join.kind]
    named = join.version or join.k3s_version
    version = f"export {agent.version_variable}={shlex.quote(named)}\n" if named else ""
    return f"""\
#!/bin/bash
# Joins this machine to the cluster as an agent of {agent.name}.
set -euo pipefail
umask 077
{metadata.read_instance_id}
join_token=$({metadata.token_command})
folder={agent.folder}
mkdir -p "$folder"
{{
cat <<'EBBTIDE'
{_settled_part(join, slot, pool)}
EBBTIDE
printf '  - "{identity.INSTANCE_ID}=%s"\\n' "$instance_id"
printf 'kubelet-arg:\\n  - "provider-id={metadata.provider_prefix}%s"\\n' "$instance_id"
printf 'token: "%s"\\n' "$join_token"
}} > "$folder/config.yaml"
{version}{join.install_command or agent.install}
"""


def _settled_part(join: Join, slot: Slot, pool: Pool) -> str:
    """What is known before the launch, as YAML that ends inside the list of labels."""
    lines = [f"server: {json.dumps(join.server_url)}"]
    if taints := taints_of(pool):
        lines += ["node-taint:", *(f"  - {json.dumps(taint)}" for taint in taints)]
    labels = labels_of(slot, pool)
    lines += ["node-label:", *(f"  - {json.dumps(f'{key}={value}')}" for key, value in labels.items())]
    return "\n".join(lines)


def kubeadm_script(join: Join, metadata: Metadata, slot: Slot, pool: Pool) -> str:
    install = f"{join.install_command}\n" if join.install_command else ""
    labels = ",".join(f"{key}={value}" for key, value in labels_of(slot, pool).items())
    return f"""\
#!/bin/bash
# Joins this machine to the cluster with kubeadm.
set -euo pipefail
umask 077
{metadata.read_instance_id}
join_token=$({metadata.token_command})
file=${{KUBEADM_JOIN_FILE:-{DEFAULT_FILE}}}
mkdir -p "$(dirname "$file")"
{{
cat <<'EBBTIDE'
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
nodeRegistration:
  taints: {json.dumps(_taints(pool))}
  kubeletExtraArgs:
    - name: node-labels
EBBTIDE
printf '      value: %s\\n' {_quoted_label(labels)}
cat <<'EBBTIDE'
    - name: provider-id
EBBTIDE
printf '      value: "{metadata.provider_prefix}%s"\\n' "$instance_id"
cat <<'EBBTIDE'
discovery:
  bootstrapToken:
    apiServerEndpoint: {json.dumps(_endpoint(join.server_url))}
    caCertHashes: [{json.dumps(join.ca_cert_hash)}]
EBBTIDE
printf '    token: "%s"\\n' "$join_token"
}} > "$file"
{install}kubeadm join --config "$file"
"""


def _endpoint(url: str) -> str:
    """Host and port, as kubeadm wants them."""
    parts = urlsplit(url)
    return parts.netloc if parts.port else f"{parts.netloc}:{HTTPS}"


def _taints(pool: Pool) -> list[dict[str, str]]:
    return [{"key": taint.key, "value": taint.value, "effect": str(taint.effect)} for taint in pool.taints]


def _quoted_label(labels: str) -> str:
    """A word of shell that prints the labels as a string of YAML, with the id of the machine at its end."""
    text = json.dumps(f"{labels},{identity.INSTANCE_ID}=")
    return "'" + text[:-1].replace("'", "'\\''") + "'\"$instance_id\"'\"'"


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


def custom_user_data(join: Join, metadata: Metadata, slot: Slot, pool: Pool) -> str:
    values = {
        "pool": slot.pool,
        "zone": slot.zone,
        "instance_type": slot.instance_type,
        "market": str(slot.market),
        "labels": ",".join(f"{key}={value}" for key, value in labels_of(slot, pool).items()),
        "taints": ",".join(taints_of(pool)),
        "server_url": join.server_url,
        "version": join.version,
        "provider_prefix": metadata.provider_prefix,
        "read_instance_id": metadata.read_instance_id,
        "token_command": metadata.token_command,
    }

    def fill(found: re.Match[str]) -> str:
        value = values[found[1]]
        match found[2]:
            case "sh":
                return shlex.quote(value)
            case "json":
                return json.dumps(value)
            case _:
                return value

    return PLACE.sub(fill, join.template)


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
