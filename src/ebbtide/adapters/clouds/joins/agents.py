"""K3s and RKE2: an agent that reads one file of YAML. Both use the same keys in it."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from ebbtide.adapters.clouds import identity
from ebbtide.adapters.clouds.joins.machine import Join, JoinKind, Metadata, labels_of, taints_of
from ebbtide.model.operation import Slot
from ebbtide.model.pool import Pool


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
