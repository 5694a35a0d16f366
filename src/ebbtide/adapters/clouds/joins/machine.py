"""What every way to join has in common: where a machine learns who it is, where its token comes from, and
what its node is called and marked with.

No secret is in the user data of a machine: everybody who may describe instances can read it. A token is
printed by a command that runs on the machine itself, and goes into a file that only root can read.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.adapters.clouds import identity
from ebbtide.errors import ConfigError, Final
from ebbtide.model.operation import Slot
from ebbtide.model.pool import Pool

TOKEN_FILE = "/etc/ebbtide/join-token"
ZONE = "topology.kubernetes.io/zone"


class JoinKind(StrEnum):
    K3S = "k3s"
    RKE2 = "rke2"
    KUBEADM = "kubeadm"
    EKS = "eks"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class Join:
    server_url: str = ""
    """Such as https://10.0.0.2:6443."""
    kind: JoinKind = JoinKind.K3S
    token_command: str = ""
    """Prints the token on the new machine."""
    token_parameter: str = ""
    """EC2: name of the SSM parameter that holds the token."""
    token_secret: str = ""
    """EC2: name of the secret in Secrets Manager that holds it."""
    token_file: str = ""
    """File of the image that holds it."""
    k3s_version: str = ""
    version: str = ""
    install_command: str = ""
    """Empty: that of the kind."""
    ca_cert_hash: str = ""
    cluster_name: str = ""
    ca_certificate: str = ""
    service_cidr: str = ""
    template: str = ""


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

NEEDS_TOKEN = (JoinKind.K3S, JoinKind.RKE2, JoinKind.KUBEADM)


def ec2_metadata(zone: str, join: Join) -> Metadata:
    command = _own_command(join) or _ask_aws(join)
    if not command and join.kind in NEEDS_TOKEN:
        raise ConfigError(
            "the join token is nowhere: set join.token_parameter to the name of an SSM parameter"
        )
    return Metadata(EC2_METADATA, f"aws:///{zone}/", command)


def hetzner_metadata(join: Join) -> Metadata:
    return Metadata(HETZNER_METADATA, "hcloud://", _own_command(join) or f"cat {TOKEN_FILE}")


def _own_command(join: Join) -> str:
    return join.token_command or (f"cat {shlex.quote(join.token_file)}" if join.token_file else "")


def _ask_aws(join: Join) -> str:
    if join.token_parameter:
        return (
            'aws ssm get-parameter --region "$region" --with-decryption --query Parameter.Value --output text'
            f" --name {shlex.quote(join.token_parameter)}"
        )
    if join.token_secret:
        return (
            'aws secretsmanager get-secret-value --region "$region" --query SecretString --output text'
            f" --secret-id {shlex.quote(join.token_secret)}"
        )
    return ""


def pool_of(slot: Slot, pools: Sequence[Pool]) -> Pool:
    pool = next((pool for pool in pools if pool.name == slot.pool), None)
    if pool is None:
        raise Final(f"pool {slot.pool!r} is not configured: a node of it would join without its labels")
    return pool


def labels_of(slot: Slot, pool: Pool) -> dict[str, str]:
    """All that are known before the launch."""
    return {
        **dict(pool.labels),
        identity.POOL: slot.pool,
        identity.INSTANCE_TYPE: slot.instance_type,
        identity.MARKET: str(slot.market),
        ZONE: slot.zone,
    }


def taints_of(pool: Pool) -> list[str]:
    return [f"{taint.key}={taint.value}:{taint.effect}" for taint in pool.taints]
