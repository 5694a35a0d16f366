"""Whose an instance is, which launch made it, and what every way to join has in common: the tags it carries,
the keys derived from a slot, where a machine learns who it is, where its token comes from, and what its
node is called and marked with.

Everything here is a pure function of cluster and slot, so a repeated launch says exactly the same. No
secret is in the user data of a machine: everybody who may describe instances can read it. A token is
printed by a command that runs on the machine itself, and goes into a file that only root can read.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.errors import ConfigError, Final
from ebbtide.model.effect import Launch
from ebbtide.model.operation import Slot
from ebbtide.model.pool import Pool

CLUSTER = "ebbtide.dev/cluster"
POOL = "ebbtide.dev/pool"
SLOT = "ebbtide.dev/slot"
OPERATION = "ebbtide.dev/operation"
INSTANCE_ID = "ebbtide.dev/instance-id"
INSTANCE_TYPE = "ebbtide.dev/instance-type"
MARKET = "ebbtide.dev/market"
LAUNCH_HASH = "ebbtide.dev/launch-hash"
"""Of the configuration that the machine was launched with: another one of its pool is drift."""

TOKEN_LENGTH = 64
"""What EC2 accepts as a ClientToken."""
LABEL_LENGTH = 63
_NAME_PART, _NAME_DIGEST = 20, 12
TOKEN_FILE = "/etc/ebbtide/join-token"
ZONE = "topology.kubernetes.io/zone"


def tags_of(effect: Launch, cluster: str, pools: Sequence[Pool] = ()) -> dict[str, str]:
    hashes = {pool.name: pool.launch_hash for pool in pools if pool.launch_hash}
    name = effect.slot.pool
    return {
        CLUSTER: cluster,
        POOL: name,
        SLOT: effect.slot.key,
        OPERATION: effect.operation_id,
        **({LAUNCH_HASH: hashes[name]} if name in hashes else {}),
    }


def client_token(cluster: str, key: str) -> str:
    """The cluster is in it since one account may hold several."""
    token = f"{cluster}/{key}"
    if len(token) <= TOKEN_LENGTH and re.fullmatch(r"[!-~]+", token):
        return token
    return _digest(cluster, key)


def server_name(cluster: str, pool: str, key: str) -> str:
    """A host name that no other slot has; the front is for people."""
    front = "-".join(part for text in (cluster, pool) if (part := _host_part(text)))
    return f"{front or 'ebbtide'}-{_digest(cluster, key)[:_NAME_DIGEST]}"


def _host_part(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_NAME_PART].strip("-")


def _digest(cluster: str, key: str) -> str:
    return hashlib.sha256(f"{cluster}\0{key}".encode()).hexdigest()


def label_value(text: str) -> str:
    """The text as a label value of Hetzner or Kubernetes, from which it can be read back.

    Letters and digits stay, `-` and `.` too except at the ends; anything else becomes `_` and two hex digits.
    """
    last = len(text) - 1
    value = "".join(
        char if _is_plain(char) or (char in "-." and 0 < place < last) else _escaped(char)
        for place, char in enumerate(text)
    )
    # A value may not begin with the mark of an escape, so such a one gets a letter that is taken off again.
    value = f"x{value}" if re.match("x*_", value) else value
    if len(value) > LABEL_LENGTH:
        raise Final(f"{text!r} does not fit into a label of {LABEL_LENGTH} characters: use a shorter name")
    return value


def _is_plain(char: str) -> bool:
    return char.isascii() and char.isalnum()


def _escaped(char: str) -> str:
    return "".join(f"_{byte:02x}" for byte in char.encode())


def read_label_value(value: str) -> str:
    value = value[1:] if re.match("x+_", value) else value
    raw = re.sub(
        rb"_([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), value.encode("ascii", "replace")
    )
    return raw.decode(errors="replace")


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
        POOL: slot.pool,
        INSTANCE_TYPE: slot.instance_type,
        MARKET: str(slot.market),
        ZONE: slot.zone,
    }


def taints_of(pool: Pool) -> list[str]:
    return [f"{taint.key}={taint.value}:{taint.effect}" for taint in pool.taints]
