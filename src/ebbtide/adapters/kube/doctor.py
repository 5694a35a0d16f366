"""Whether the cluster can be reached and may be worked with, and whether wake on request can work: what
`ebbtide doctor` asks of Kubernetes.

Read-only: the server is asked what we may do, and nothing of it is tried.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import msgspec

from ebbtide import typed
from ebbtide.adapters.kube.cluster import Readers
from ebbtide.adapters.kube.connection import NODES, ApiError, Call, Connection, Page, read_list
from ebbtide.adapters.kube.declared import PATH as SLEEP_PATH
from ebbtide.adapters.kube.services import KubeServices
from ebbtide.adapters.kube.usage import PATH as USAGE_PATH
from ebbtide.core.nodes.orphans import claimable, says_uncounted, uncounted
from ebbtide.core.scale_to_zero.wake import may_not_take_over
from ebbtide.core.words import count_of
from ebbtide.errors import UNREADABLE, EbbtideError
from ebbtide.model.policy import ServiceRef
from ebbtide.model.pool import Pool
from ebbtide.model.snapshot import ClusterView, Node

REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
MOST_SKEW_SECONDS = 10
SLICES = "endpointslices"
DISCOVERY = "discovery.k8s.io"


@dataclass(frozen=True, slots=True)
class Finding:
    ok: bool
    says: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Right:
    verb: str
    resource: str
    group: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f"/{self.subresource}" if self.subresource else "")


READ = ("get", "list", "watch")
FOLLOW = ("list", "watch")
RIGHTS = (
    *(Right(verb, "nodes") for verb in (*READ, "patch", "delete")),
    *(Right(verb, "pods") for verb in READ),
    *(Right(verb, kind) for kind in ("persistentvolumes", "persistentvolumeclaims") for verb in FOLLOW),
    *(Right(verb, "poddisruptionbudgets", "policy") for verb in FOLLOW),
    Right("create", "pods", subresource="eviction"),
    Right("create", "events"),
)


WORKLOADS = ("deployments", "statefulsets")
SCALING_RIGHTS = (
    *(Right(verb, kind, "apps") for kind in WORKLOADS for verb in READ),
    *(Right("patch", kind, "apps", "scale") for kind in WORKLOADS),
    *(Right(verb, "horizontalpodautoscalers", "autoscaling") for verb in FOLLOW),
)
"""Of who scales workloads to zero and back."""
SLEEP_RIGHTS = (
    Right("list", "sleeppolicies", "ebbtide.dev"),
    Right("patch", "sleeppolicies", "ebbtide.dev", "status"),
)
"""Of who applies SleepPolicies."""
SLEEP_FILE = "sleep-policies.yaml"


class ReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class Review(msgspec.Struct, frozen=True):
    status: ReviewStatus


class Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str


def examine(
    connection: Connection, cpu_from_cluster: bool = False, scales_workloads: bool = False
) -> Iterator[Finding]:
    """`cpu_from_cluster`: whether there is no Prometheus, so metrics-server is needed;
    `scales_workloads`: whether there are policies for workloads."""
    try:
        version = typed.decode(connection.get("/version", "the version"), Version).git_version
    except (EbbtideError, *UNREADABLE) as error:
        yield Finding(False, f"the cluster does not answer: {error}", "check the kubeconfig and the network")
        return
    yield Finding(True, f"{connection.server} runs Kubernetes {version}")
    yield _clock(connection)
    yield _rights(connection, RIGHTS, "all permissions that are needed are there", "rbac.yaml")
    if scales_workloads:
        says = "all permissions that scaling workloads needs are there"
        yield _rights(connection, SCALING_RIGHTS, says, "workload-scaling.yaml")
    yield _metrics_server(connection, cpu_from_cluster)


def examine_sleep_policies(connection: Connection, switched_on: bool) -> Iterator[Finding]:
    """Nothing where the switch is off and the cluster has none. That the cluster does not answer is said
    once, by `examine`."""
    try:
        body = connection.try_get(SLEEP_PATH, "SleepPolicies", {"limit": 1})
        some = bool(typed.decode(body, Page[msgspec.Raw]).items)
    except ApiError as refused:
        if switched_on and refused.not_found:
            fix = f"apply deploy/manifests/{SLEEP_FILE}, or set scale_to_zero.sleep_policies to false"
            yield Finding(
                False, "scale_to_zero.sleep_policies is on, and the cluster has no SleepPolicy", fix
            )
        elif switched_on:
            yield _rights(connection, SLEEP_RIGHTS, "SleepPolicies may be read and reported on", SLEEP_FILE)
        return
    except UNREADABLE as error:
        yield Finding(False, f"SleepPolicies cannot be read: {error}", "check the network")
        return
    if switched_on:
        yield _rights(connection, SLEEP_RIGHTS, "SleepPolicies may be read and reported on", SLEEP_FILE)
    elif some:
        says = "there are SleepPolicies, and scale_to_zero.sleep_policies is off: they are not applied"
        yield Finding(False, says, "set scale_to_zero.sleep_policies to true")


def read_nodes(connection: Connection) -> list[Node]:
    return read_list(connection, NODES, Readers().node)[0]


def uncounted_nodes(nodes: Sequence[Node], pools: Sequence[Pool]) -> Finding | None:
    """None where every worker is in a pool. Those that a pool could have launched should be in it."""
    view = ClusterView(tuple(nodes))
    loose = [node.name for node in uncounted(view)]
    if not loose:
        return None
    wanted = bool(claimable(view, pools))
    return Finding(not wanted, says_uncounted(loose), "run `ebbtide adopt --dry-run`" if wanted else "")


def _clock(connection: Connection) -> Finding:
    said = connection.last_date
    if not said:
        return Finding(True, "the server does not send its time")
    skew = parsedate_to_datetime(said).timestamp() - time.time()
    if abs(skew) > MOST_SKEW_SECONDS:
        return Finding(False, f"our clock is {-skew:+.0f} s off the server's", "run an NTP client on both")
    return Finding(True, "our clock agrees with the server's")


def _rights(connection: Connection, rights: Sequence[Right], says: str, file: str) -> Finding:
    """`file` of deploy/manifests gives them."""
    fix = f"apply deploy/manifests/{file}"
    try:
        missing = missing_rights(connection, rights)
    except (EbbtideError, *UNREADABLE) as error:
        return Finding(False, f"what we may do cannot be asked: {error}", fix)
    if missing:
        return Finding(False, f"not allowed: {', '.join(missing)}", fix)
    return Finding(True, says)


def missing_rights(connection: Connection, rights: Sequence[Right], namespace: str = "") -> list[str]:
    """Those that we do not have, in all namespaces where none is named."""
    return [str(right) for right in rights if not _may(connection, right, namespace)]


def _may(connection: Connection, right: Right, namespace: str) -> bool:
    asked = {
        "namespace": namespace,
        "verb": right.verb,
        "resource": right.resource,
        "group": right.group,
        "subresource": right.subresource,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = connection.act(Call("POST", REVIEW, f"whether we may {right}", body))
    return typed.decode(answer, Review).status.allowed


def _metrics_server(connection: Connection, needed: bool) -> Finding:
    try:
        connection.try_get(USAGE_PATH, "node metrics", {"limit": 1})
    except (EbbtideError, ApiError):
        if needed:
            says = "there is neither metrics-server nor Prometheus: CPU is unknown, and nothing is removed"
            return Finding(False, says, "install metrics-server, or set metrics.prometheus_url")
        return Finding(True, "there is no metrics-server: CPU comes from Prometheus alone")
    return Finding(True, "metrics-server answers")


GATE_RIGHTS = (
    Right("get", "services"),
    *(Right(verb, SLICES, DISCOVERY) for verb in ("list", "watch", "create", "patch", "delete")),
)
MEMBERS = (Right("list", SLICES, DISCOVERY),)
"""On the Service of the gates."""
FIX = "apply deploy/manifests/gate.yaml, with the Role for each namespace of gate.namespaces"
ANY_GATE = ("a gate",)


def examine_gate(
    connection: Connection,
    gate: ServiceRef | None,
    namespaces: Sequence[str],
    wanted: Mapping[str, Sequence[ServiceRef]],
) -> Iterator[Finding]:
    """`gate` is the Service of the gates, `wanted` the Services of each policy that has a gate."""
    if gate is None:
        for policy in wanted:
            says = f"policy {policy} has a gate, and gate.service is empty: it stays up"
            yield Finding(
                False, says, "set gate.service and gate.namespaces, or remove the gate of the policy"
            )
        return
    try:
        missing = [
            f"{right} in {gate.namespace}" for right in missing_rights(connection, MEMBERS, gate.namespace)
        ]
        for namespace in namespaces:
            missing += [
                f"{right} in {namespace}" for right in missing_rights(connection, GATE_RIGHTS, namespace)
            ]
    except (EbbtideError, *UNREADABLE) as error:
        yield Finding(False, f"what the gate may do cannot be asked: {error}", FIX)
        return
    if missing:
        yield Finding(False, f"not allowed for wake on request: {', '.join(missing)}", FIX)
        return
    yield Finding(True, "all permissions that wake on request needs are there")
    services = KubeServices(connection, gate, namespaces)
    yield _gates(services, gate)
    for policy, refs in wanted.items():
        for ref in refs:
            yield _service(services, policy, ref)


def _gates(services: KubeServices, gate: ServiceRef) -> Finding:
    fix = f"see why with `kubectl --namespace {gate.namespace} get pods,endpointslices`"
    try:
        ready = len(services.gates())
    except EbbtideError as error:
        return Finding(False, f"which gates are ready cannot be read: {error}", fix)
    if not ready:
        return Finding(False, f"no gate is ready behind {gate}: policies with a gate stay up", fix)
    alone = "; run two, so one may die" if ready == 1 else ""
    return Finding(True, f"{count_of(ready, 'gate')} {'is' if ready == 1 else 'are'} ready{alone}")


def _service(services: KubeServices, policy: str, ref: ServiceRef) -> Finding:
    fix = f"choose another Service in the gate of policy {policy}; without one it stays up"
    try:
        seen = services.read(ref)
    except EbbtideError as error:
        return Finding(False, f"policy {policy}: {error}", fix)
    # Whether any gate is ready has been said already.
    if why := may_not_take_over(seen, ANY_GATE):
        return Finding(False, f"policy {policy}: {why.says}", fix)
    leads = "points at the gates now" if seen.takeover is not None else "can be taken over"
    return Finding(True, f"policy {policy}: {ref} {leads}")
