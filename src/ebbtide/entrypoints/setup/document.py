"""What `ebbtide init` writes: `ebbtide.yaml`, and the RBAC rules that Ebbtide needs in the cluster.

`ebbtide.yaml` says what was found, what it means, how new nodes join, and what is left to do. A key that
cannot be known yet is `FILL_IN`: the file is valid, `doctor` names the key, and no command that acts
starts before it is set.

The rules are made from the list that `ebbtide doctor` checks, so both always agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import yaml

from ebbtide.adapters.kube.doctor import RIGHTS, SCALING_RIGHTS, Right
from ebbtide.config.problems import FILL_IN
from ebbtide.core.prices import CATALOGUE
from ebbtide.core.words import count_of
from ebbtide.entrypoints.setup.survey import CloudLook, PoolDraft, Survey
from ebbtide.model.snapshot import Market

NAMESPACE = "ebbtide"
FILE_NAME = "ebbtide-rbac.yaml"
KUBECONFIG = "ebbtide.kubeconfig"
METRICS = Right("list", "nodes", "metrics.k8s.io")

HEAD = """\
# What Ebbtide may do in the cluster. It cannot delete a pod, run a command in one, or read a secret.
#   kubectl apply -f {file}
apiVersion: v1
kind: Namespace
metadata:
  name: {namespace}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: ebbtide
  namespace: {namespace}
---
# A token for an Ebbtide outside the cluster. Inside, the pod has one of its own: delete this part.
apiVersion: v1
kind: Secret
metadata:
  name: ebbtide-token
  namespace: {namespace}
  annotations:
    kubernetes.io/service-account.name: ebbtide
type: kubernetes.io/service-account-token
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: ebbtide
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: ebbtide
subjects:
  - kind: ServiceAccount
    name: ebbtide
    namespace: {namespace}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: ebbtide
rules:
"""

STEPS = (
    "kubectl apply -f {file}",
    "kubectl -n {namespace} wait --for=jsonpath='{{.data.token}}' secret/ebbtide-token --timeout=60s",
    "server=$(kubectl config view --minify --raw -o jsonpath='{{.clusters[0].cluster.server}}')",
    'secret() {{ kubectl -n {namespace} get secret ebbtide-token -o jsonpath="{{.data.$1}}" | base64 -d; }}',
    "secret 'ca\\.crt' > ebbtide-ca.crt",
    "token=$(secret token)",
    "export KUBECONFIG=$PWD/{kubeconfig}",
    "ca=ebbtide-ca.crt",
    'kubectl config set-cluster {cluster} --server "$server" --certificate-authority $ca --embed-certs',
    'kubectl config set-credentials ebbtide --token "$token"',
    "kubectl config set-context {cluster} --cluster {cluster} --user ebbtide",
    "kubectl config use-context {cluster}",
    "chmod 600 {kubeconfig}",
)
"""As a person types them in one shell, next to the files that `ebbtide init` wrote."""


def rbac(workloads: bool = False) -> str:
    """The manifest; with `workloads` also for policies that scale Deployments and StatefulSets to zero."""
    rights = [*RIGHTS, METRICS, *(SCALING_RIGHTS if workloads else ())]
    return HEAD.format(file=FILE_NAME, namespace=NAMESPACE) + "\n".join(_rules(rights)) + "\n"


def kubeconfig_steps(cluster: str) -> tuple[str, ...]:
    named = {"file": FILE_NAME, "namespace": NAMESPACE, "kubeconfig": KUBECONFIG, "cluster": cluster}
    return tuple(step.format(**named) for step in STEPS)


def _rules(rights: Iterable[Right]) -> Iterator[str]:
    verbs: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        name = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
        verbs.setdefault((right.group, name), []).append(right.verb)
    for (group, resource), allowed in verbs.items():
        yield f'  - apiGroups: ["{group}"]'
        yield f"    resources: [{resource}]"
        yield f"    verbs: [{', '.join(allowed)}]"


SHOWN = 3
CURRENCY = {"aws": "USD", "hetzner": "EUR"}
PORTS = {"k3s": 6443, "kubeadm": 6443, "rke2": 9345}


@dataclass(frozen=True, slots=True)
class Choices:
    """What a person decides; everything else is read from the nodes."""

    cluster: str
    cloud: str
    region: str
    min_workers: int
    max_workers: int
    store: str
    kubeconfig: str
    image: str
    look: CloudLook = field(default_factory=CloudLook)


def plain(text: str) -> str:
    """As a YAML string: a cluster called 9, on or 2026-01-01 must not become another type."""
    return text if text[:1].isalpha() and yaml.safe_load(text) == text else json.dumps(text)


def write_document(found: Survey, chosen: Choices) -> str:
    parts = (
        _head(found, chosen),
        _limits(chosen),
        _cloud(found, chosen),
        join_part(found, chosen),
        _pools(found, chosen),
        _next(chosen),
    )
    return "\n".join(line for part in parts for line in [*part, ""]).rstrip("\n") + "\n"


def _head(found: Survey, chosen: Choices) -> Iterator[str]:
    nodes = sum(len(pool.nodes) for pool in found.pools)
    version = found.version or "unknown version"
    yield f"# Ebbtide for {chosen.cluster}, written by `ebbtide init` from {nodes} workers ({version})."
    yield "# Check it with `ebbtide config check`. Every key: docs/configuration.md."
    yield "cluster:"
    name = plain(chosen.cluster)
    yield f"  name: {name}   # tag of every instance, key of the record: do not change it later"
    yield "  kind: kubernetes"
    if chosen.kubeconfig:
        yield f"  kubeconfig: {json.dumps(chosen.kubeconfig)}   # how to make it: at the end of this file"
    yield ""
    yield "store:"
    yield f"  url: {json.dumps(chosen.store)}"
    yield "  # SQLite is for one process. Replicas need postgresql+psycopg://USER:PASSWORD@HOST/DATABASE or dynamodb://."


def _limits(chosen: Choices) -> Iterator[str]:
    yield "profile: balanced      # classic is slower, eager saves more: docs/profiles.md"
    yield f"min_workers: {chosen.min_workers}"
    yield f"max_workers: {chosen.max_workers}        # what you are willing to pay for, at most"


def _cloud(found: Survey, chosen: Choices) -> Iterator[str]:
    yield "cloud:"
    yield f"  kind: {chosen.cloud}"
    yield ""
    seen = chosen.look.launched
    if chosen.cloud == "hetzner":
        yield "# The API token is not in this file: set HCLOUD_TOKEN, or hetzner.token_file."
        yield "hetzner:"
        image = chosen.image or seen.image or FILL_IN
        yield f"  image: {json.dumps(image)}   # name of an image, or id of a snapshot"
        yield _known("networks", list(seen.networks), "[1234567]", "ids of the networks of your nodes")
        yield "  # ssh_keys: [name]"
        yield _known("firewalls", list(seen.firewalls), "[1234567]", "their ids")
        return
    yield "# Access comes from the environment, a profile or the role of the machine; no key is in this file."
    yield "aws:"
    yield f"  region: {chosen.region or FILL_IN}"
    if found.launch_template and not chosen.image:
        yield f"  launch_template: {json.dumps(found.launch_template)}   # that of the node group"
    else:
        image = chosen.image or found.image or seen.image or FILL_IN
        yield f"  image: {json.dumps(image)}   # the AMI of new nodes"
    none = "without any: the default subnet of each zone"
    yield _known("subnets", dict(seen.subnets), "{eu-central-1a: subnet-0aaa}", none)
    yield _known("security_groups", list(seen.security_groups), "[sg-0aaa]", "ids")
    yield _known("instance_profile", seen.instance_profile, "name", "with which new nodes join")
    yield _known("key_name", seen.key_name, "name", "SSH key")
    yield "  # queue_url: https://...                  # spot notices: docs/how-to/aws-lambda.md"


def _known(key: str, value: object, example: str, says: str) -> str:
    """A line with what the cloud says, else one that shows how to write it."""
    return f"  {key}: {json.dumps(value)}" if value else f"  # {key}: {example}   # {says}"


def _pools(found: Survey, chosen: Choices) -> Iterator[str]:
    for name in found.managed:
        yield f"# Node group {name} is managed: its Auto Scaling group replaces what Ebbtide removes."
        yield "# Detach nodes from it before you adopt them (docs/adopting.md), or leave them: nodes that"
        yield "# no pool claims are neither counted nor touched."
    yield "pools:"
    for pool in found.pools:
        yield from _pool(pool, CURRENCY.get(chosen.cloud, "EUR"))


def _pool(pool: PoolDraft, currency: str) -> Iterator[str]:
    yield f"  # {_counted(pool.nodes)} today. They count after `ebbtide adopt --pool {pool.name}`."
    yield f"  - name: {plain(pool.name)}"
    if pool.market is Market.SPOT:
        yield "    market: spot"
    yield "    types:"
    for name, (offer, pods) in pool.types.items():
        known = CATALOGUE.get(name)
        if known is not None and known.price is not None:
            yield f"      - {name}   # {known.price.per_hour} {known.price.currency} an hour"
            continue
        size = f"cpu: {offer.cpu_milli}m, memory: {offer.memory_mib}Mi, pods: {pods}"
        yield f"      - {{name: {json.dumps(name)}, {size}}}"
        yield f"        # price unknown: add price: 0.10, currency: {currency}, or `ebbtide prices update`"
    yield f"    zones: [{', '.join(pool.zones)}]"
    if pool.labels:
        yield f"    labels: {json.dumps(dict(pool.labels))}"
    if pool.taints:
        taints = [{"key": t.key, "value": t.value, "effect": t.effect.value} for t in pool.taints]
        yield f"    taints: {json.dumps(taints)}"


def _counted(nodes: Iterable[str]) -> str:
    names = list(nodes)
    more = ", ..." if len(names) > SHOWN else ""
    return f"{count_of(len(names), 'node')} ({', '.join(names[:SHOWN])}{more})"


def _next(chosen: Choices) -> Iterator[str]:
    yield f"# Access for an Ebbtide outside the cluster, in one shell next to {FILE_NAME}:"
    yield "#"
    for step in kubeconfig_steps(chosen.cluster):
        yield f"#   $ {step}"
    yield "#"
    yield f"# Then set cluster.kubeconfig to {KUBECONFIG}. Inside the cluster, the pod's account is used."
    yield "#"
    yield "# Next: ebbtide doctor, ebbtide pause --reason 'first day', ebbtide adopt --dry-run, ebbtide plan"


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
    yield f"  cluster_name: {plain(found.cluster or chosen.cluster)}"
    yield f"  server_url: {eks.server_url if eks else f'https://{FILL_IN}'}"
    yield f"  ca_certificate: {eks.ca_certificate if eks else FILL_IN}"
    yield f"  service_cidr: {eks.service_cidr if eks else FILL_IN}"
