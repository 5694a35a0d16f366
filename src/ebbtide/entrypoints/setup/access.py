"""The rights that Ebbtide needs in the cluster, and how to hand them to a process outside of it.

Written from the list that `ebbtide doctor` asks for, so both always agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ebbtide.adapters.kube.doctor import RIGHTS, SCALING_RIGHTS, Right

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
