"""What is asked of Prometheus for a recording: the names of kube-state-metrics, one query for each source.

What changes by the minute is looked at every `step` seconds. What rarely changes is looked at every hour, and
then covers the whole hour, so a pod that lived for some minutes is not missed.
"""

from __future__ import annotations

from ebbtide.adapters.prometheus.asking import RangeQuery

HOUR = 3600
KINDS = "ReplicaSet|StatefulSet|DaemonSet"
LABELS = (
    "label_ebbtide_dev_pool",
    "label_ebbtide_dev_instance_type",
    "label_node_kubernetes_io_instance_type",
    "label_beta_kubernetes_io_instance_type",
    "label_topology_kubernetes_io_zone",
    "label_failure_domain_beta_kubernetes_io_zone",
    "label_ebbtide_dev_market",
    "label_karpenter_sh_capacity_type",
    "label_eks_amazonaws_com_capacityType",
)
"""Of a node, as kube-state-metrics writes them; it exports those of its --metric-labels-allowlist."""


def _lately(series: str) -> str:
    return f"last_over_time({series}[1h])"


KEPT = f'kube_pod_owner{{owner_kind=~"{KINDS}"}}'
OTHERS = f'kube_pod_owner{{owner_kind!~"{KINDS}|Node|<none>|"}}'
"""Pods of Jobs, mostly. A pod without a controller has the owner `<none>`, a mirror pod a Node."""
RUN = "(.+)-[0-9]{6,}"
"""Name of a Job that a CronJob made: all of them are one workload."""


def _named(others: str) -> str:
    return f'label_replace({others}, "owner_name", "$1", "owner_name", "{RUN}")'


def _by_owner(amount: str, owner: str, by: str = "") -> str:
    """An amount of each pod, with the owner of the pod."""
    owned = f"max by (namespace, pod, owner_kind, owner_name) ({owner})"
    pods = f"sum by (namespace, pod{by}) ({amount})"
    return f"{pods} * on (namespace, pod) group_left (owner_kind, owner_name) {owned}"


_OWNER = f"{KEPT} or {_named(OTHERS)}"
_OWNER_LATELY = f"{_lately(KEPT)} or {_named(_lately(OTHERS))}"
_REQUESTS = 'kube_pod_container_resource_requests{resource=~"cpu|memory"}'
_EACH = f"max by (namespace, pod, container, resource) ({_lately(_REQUESTS)})"
LATE = 120
"""How long after it was scheduled a pod may be seen first."""


def _waits() -> str:
    """Seconds from the making of each pod until it was scheduled, of those that were within the last hour."""
    whole = f"[{HOUR + 2 * LATE}s]"
    made, placed = (
        f"max by (namespace, pod, uid) (last_over_time({name}{whole}))"
        for name in ("kube_pod_created", "kube_pod_status_scheduled_time")
    )
    lately = f"({placed} > time() - {HOUR + LATE} <= time() - {LATE})"
    return f"sum({lately} - on (namespace, pod, uid) {made})"


_OWNERS = "namespace, owner_kind, owner_name"
_UNFINISHED = 'max by (namespace, pod) (kube_pod_status_phase{phase=~"Pending|Running"}) == 1'
_FINISHED = 'max by (namespace, pod) (kube_pod_status_phase{phase=~"Succeeded|Failed"}) == 1'
_OTHERS = f"max by (namespace, pod, owner_kind, owner_name) ({_named(OTHERS)})"
_OTHERS_NOW = f"{_OTHERS} and on (namespace, pod) ({_UNFINISHED})"


def queries(step: int) -> list[RangeQuery]:
    """In the order in which they are asked: what a recording cannot do without comes first."""
    loose = 'kube_pod_owner{owner_kind!="DaemonSet",owner_kind!="Node"}'
    kept = 'kube_pod_owner{owner_kind=~"ReplicaSet|StatefulSet"}'
    used = 'rate(container_cpu_usage_seconds_total{container!="",container!="POD"}[5m])'
    asked_cpu = 'kube_pod_container_resource_requests{resource="cpu"}'
    budget = "kube_poddisruptionbudget_status"
    return [
        RangeQuery("deployments", "max by (namespace, deployment) (kube_deployment_spec_replicas)", step, 40),
        RangeQuery("statefulsets", "max by (namespace, statefulset) (kube_statefulset_replicas)", step, 40),
        RangeQuery(
            "requests",
            f"max by ({_OWNERS}, resource) ({_by_owner(_EACH, _OWNER_LATELY, ', resource')})",
            HOUR,
            200,
        ),
        RangeQuery(
            "replicasets",
            f"max by (namespace, replicaset, owner_name) ({_lately('kube_replicaset_owner')})",
            HOUR,
            400,
        ),
        RangeQuery(
            "waiting",
            'sum(max by (namespace, pod) (kube_pod_status_scheduled{condition="false"}))',
            step,
        ),
        RangeQuery("waits", _waits(), HOUR),
        RangeQuery("nodes", "max by (node) (kube_node_created)", step, 100),
        RangeQuery(
            "labels", f"max by (node, {', '.join(LABELS)}) ({_lately('kube_node_labels')})", HOUR, 200
        ),
        RangeQuery("control", 'max by (node) (kube_node_role{role=~"control-plane|master"})', HOUR, 10),
        RangeQuery("others", f"count by ({_OWNERS}) ({_OTHERS_NOW})", step, 100),
        RangeQuery("pods", f"count(max by (namespace, pod) ({loose}) unless ({_FINISHED}))", HOUR),
        RangeQuery("kept", f"count(max by (namespace, pod) ({kept}))", HOUR),
        RangeQuery("other_pods", f"count({_OTHERS_NOW})", HOUR),
        RangeQuery("used", f"sum by ({_OWNERS}) ({_by_owner(used, _OWNER)})", HOUR, 100),
        RangeQuery("asked", f"sum by ({_OWNERS}) ({_by_owner(asked_cpu, _OWNER)})", HOUR, 100),
        *(
            RangeQuery(
                name,
                f"max by (namespace, poddisruptionbudget) ({_lately(f'{budget}_{name}')})",
                HOUR,
                100,
            )
            for name in ("expected_pods", "desired_healthy")
        ),
    ]
