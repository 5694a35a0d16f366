"""kubeadm: a `JoinConfiguration` (v1beta4, Kubernetes 1.31 or later) with a bootstrap token.

The image has kubeadm, the kubelet and a container runtime; `join.install_command` may bring them. The hash of
the cluster's certificate is in the user data: it is public, and without it a machine could be led to another
API server.
"""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from ebbtide.adapters.clouds import identity
from ebbtide.adapters.clouds.joins.machine import Join, Metadata, labels_of
from ebbtide.model.operation import Slot
from ebbtide.model.pool import Pool

HTTPS = 443
DEFAULT_FILE = "/etc/ebbtide/kubeadm-join.yaml"


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
