"""Whether wake on request can work: what `ebbtide doctor` asks of Kubernetes about the gates. Read-only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ebbtide.adapters.kube.connection import Connection
from ebbtide.adapters.kube.doctor import Finding, Right, missing_rights
from ebbtide.adapters.kube.services import KubeServices
from ebbtide.core.scale_to_zero.takeover import may_not_take_over
from ebbtide.core.words import count_of
from ebbtide.errors import UNREADABLE, EbbtideError
from ebbtide.model.gate import ServiceRef

SLICES = "endpointslices"
DISCOVERY = "discovery.k8s.io"
RIGHTS = (
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
            missing += [f"{right} in {namespace}" for right in missing_rights(connection, RIGHTS, namespace)]
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
        return Finding(False, f"policy {policy}: {why}", fix)
    leads = "leads to the gates now" if seen.takeover is not None else "can be taken over"
    return Finding(True, f"policy {policy}: {ref} {leads}")
