"""The `join` section of the file that `ebbtide init` writes: how new nodes join a cluster of this kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ebbtide.config.problems import FILL_IN

if TYPE_CHECKING:
    from ebbtide.entrypoints.setup.document import Choices
    from ebbtide.entrypoints.setup.survey import Survey

PORTS = {"k3s": 6443, "kubeadm": 6443, "rke2": 9345}


def join_part(found: Survey, chosen: Choices) -> Iterator[str]:
    if found.distribution == "eks":
        yield from _eks(found, chosen)
        return
    kind, server = found.distribution, found.server or FILL_IN
    yield f"# How new nodes join: {TELLS[kind]} No token is in its user data: docs/how-to/joining.md."
    yield "join:"
    if kind != "k3s":
        yield f"  kind: {kind}"
    yield f"  server_url: https://{server}:{PORTS[kind]}   # a server that new nodes reach"
    if kind == "kubeadm":
        yield f"  ca_cert_hash: {FILL_IN}   # kubeadm token create --print-join-command"
    elif found.version:
        yield f"  {'k3s_version' if kind == 'k3s' else 'version'}: {found.version}"
    if chosen.cloud == "aws":
        yield f"  token_parameter: /{chosen.cluster}/join-token   # an SSM parameter (SecureString)"
    else:
        yield "  # The image holds the token in /etc/ebbtide/join-token (root only), or set token_command."


TELLS = {
    "k3s": "each installs the K3s agent at first boot.",
    "rke2": "each installs the RKE2 agent at first boot.",
    "kubeadm": "each runs kubeadm join at first boot; its image has kubeadm and the kubelet.",
}


def _eks(found: Survey, chosen: Choices) -> Iterator[str]:
    if found.launch_template and not chosen.image:
        yield "# How new nodes join: by the launch template of the node group. There, the kubelet must"
        yield "# register with --node-labels=ebbtide.dev/pool=NAME, the name of the pool below."
        return
    eks = chosen.look.eks
    yield "# How new nodes join: nodeadm of Amazon Linux 2023 reads this at boot. Nodes prove themselves with"
    yield "# their instance profile (aws.instance_profile), so there is no token: docs/how-to/joining.md."
    yield "# The values: aws eks describe-cluster --name NAME"
    yield "join:"
    yield "  kind: eks"
    yield f"  cluster_name: {found.cluster or chosen.cluster}"
    yield f"  server_url: {eks.server_url if eks else f'https://{FILL_IN}'}"
    yield f"  ca_certificate: {eks.ca_certificate if eks else FILL_IN}"
    yield f"  service_cidr: {eks.service_cidr if eks else FILL_IN}"
