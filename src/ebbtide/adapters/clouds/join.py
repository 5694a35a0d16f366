"""How a new machine becomes a node: a script that it runs at its first boot and that joins it to K3s.

No secret is in it. The token is printed by a command that runs on the machine itself, and goes into a
file that only root can read. The same slot always gives the same script.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.adapters.clouds import identity
from ebbtide.errors import ConfigError, Final
from ebbtide.model.operation import Slot
from ebbtide.model.pool import Pool

INSTALL = "curl -sfL https://get.k3s.io | sh -s - agent"
TOKEN_FILE = "/etc/ebbtide/join-token"


@dataclass(frozen=True, slots=True)
class Join:
    server_url: str
    """Of the K3s server, such as https://10.0.0.2:6443."""
    token_command: str = ""
    """Prints the token on the new machine; without it EC2 asks SSM, and others read TOKEN_FILE."""
    token_parameter: str = ""
    """EC2: name of the SSM parameter that holds the token."""
    k3s_version: str = ""
    install_command: str = INSTALL


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where a machine of this cloud learns who it is."""

    read_instance_id: str
    """Lines of shell that set `instance_id`."""
    provider_prefix: str
    token_command: str


EC2_METADATA = """\
imds=http://169.254.169.254/latest
session=$(curl -sf --retry 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$imds/api/token")
ask() { curl -sf --retry 5 -H "X-aws-ec2-metadata-token: $session" "$imds/meta-data/$1"; }
instance_id=$(ask instance-id)
region=$(ask placement/region)"""

HETZNER_METADATA = """\
instance_id=$(curl -sf --retry 5 http://169.254.169.254/hetzner/v1/metadata/instance-id)"""


def ec2_metadata(zone: str, join: Join) -> Metadata:
    if not (join.token_parameter or join.token_command):
        raise ConfigError(
            "the join token is nowhere: set join.token_parameter to the name of an SSM parameter"
        )
    ask = (
        'aws ssm get-parameter --region "$region" --with-decryption --query Parameter.Value --output text'
        f" --name {shlex.quote(join.token_parameter)}"
    )
    return Metadata(EC2_METADATA, f"aws:///{zone}/", join.token_command or ask)


def hetzner_metadata(join: Join) -> Metadata:
    return Metadata(HETZNER_METADATA, "hcloud://", join.token_command or f"cat {TOKEN_FILE}")


def join_script(join: Join, metadata: Metadata, slot: Slot, pools: Sequence[Pool]) -> str:
    pool = next((pool for pool in pools if pool.name == slot.pool), None)
    if pool is None:
        raise Final(f"pool {slot.pool!r} is not configured: a node of it would join without its labels")
    version = f"export INSTALL_K3S_VERSION={shlex.quote(join.k3s_version)}\n" if join.k3s_version else ""
    return f"""\
#!/bin/bash
# Joins this machine to the cluster as an agent of K3s.
set -euo pipefail
umask 077
{metadata.read_instance_id}
join_token=$({metadata.token_command})
folder=${{K3S_CONFIG_FOLDER:-/etc/rancher/k3s}}
mkdir -p "$folder"
{{
cat <<'EBBTIDE'
{_settled_part(join, slot, pool)}
EBBTIDE
printf '  - "{identity.INSTANCE_ID}=%s"\\n' "$instance_id"
printf 'kubelet-arg:\\n  - "provider-id={metadata.provider_prefix}%s"\\n' "$instance_id"
printf 'token: "%s"\\n' "$join_token"
}} > "$folder/config.yaml"
{version}{join.install_command}
"""


def _settled_part(join: Join, slot: Slot, pool: Pool) -> str:
    """What is known before the launch, as YAML that ends inside the list of labels."""
    labels = {
        **dict(pool.labels),
        identity.POOL: slot.pool,
        identity.INSTANCE_TYPE: slot.instance_type,
        identity.MARKET: str(slot.market),
        "topology.kubernetes.io/zone": slot.zone,
    }
    taints = [f"{taint.key}={taint.value}:{taint.effect}" for taint in pool.taints]
    lines = [f"server: {json.dumps(join.server_url)}"]
    if taints:
        lines += ["node-taint:", *(f"  - {json.dumps(taint)}" for taint in taints)]
    lines += ["node-label:", *(f"  - {json.dumps(f'{key}={value}')}" for key, value in labels.items())]
    return "\n".join(lines)
