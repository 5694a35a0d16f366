"""Wrong CA, expired token, forbidden, unreachable: one sentence with the next step, nothing touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ebbtide.adapters.kube.cluster import KubeCluster
from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.kube.doctor import Finding, examine, examine_gate
from ebbtide.core.prices import built_in_book
from ebbtide.entrypoints.assess.command import assess_command
from ebbtide.errors import ConfigError, EbbtideError, Final, Retryable, Usage
from ebbtide.model.effect import Cordon, Evict
from ebbtide.model.policy import ServiceRef
from tests.integration.kube.objects import Json, node
from tests.servers.dynamodb import free_port
from tests.servers.kube import NOBODY_TOKEN, kube_server
from tests.servers.processes import eventually
from tests.servers.shared_kube import RBAC, SharedKube


def another_authority(tmp_path: Path, kube: SharedKube) -> Path:
    """The right kind of certificate, of somebody else."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "somebody else")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "ca.crt"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return path


def test_who_may_not_is_told_so_in_one_sentence_and_nothing_is_touched(
    kube: SharedKube, tmp_path: Path
) -> None:
    kube.api.post("/api/v1/nodes", node("w1"))
    before = kube.api.get("/api/v1/nodes/w1")
    uid = before["metadata"]["uid"]
    kubeconfig = kube.server.kubeconfig
    expired = kube.server.account_token("ebbtide:ebbtide", lasts_seconds=-60)
    cases: list[tuple[Path, type[EbbtideError], type[EbbtideError], str]] = [
        (kubeconfig("expired", token=expired), Usage, Retryable, "renew the token"),
        (kubeconfig("unknown", token="nobody knows it"), Usage, Retryable, "renew the token"),
        (kubeconfig("nobody", token=NOBODY_TOKEN), Usage, Final, "apply the RBAC rules"),
        (
            kubeconfig("wrong-ca", authority=another_authority(tmp_path, kube)),
            Usage,
            Retryable,
            "check certificate-authority",
        ),
        (
            kubeconfig("nowhere", server=f"https://127.0.0.1:{free_port()}"),
            Retryable,
            Retryable,
            "check the address and the network",
        ),
    ]
    for path, reading, acting, next_step in cases:
        cluster = KubeCluster(connect(path))
        with pytest.raises(reading, match=next_step) as told:
            cluster.read()
        assert "\n" not in str(told.value)
        assert told.value.__cause__ is not None
        with pytest.raises(acting):
            cluster.cordon(Cordon("w1", uid, "op-1"), 1)
        with pytest.raises(acting):
            cluster.evict(Evict("default", "web", "uid", "w1", 30))
        watched = KubeCluster(connect(path), watching=True)
        with pytest.raises(reading, match=next_step):
            watched.read()
        watched.close()
        cluster.close()
    assert kube.api.get("/api/v1/nodes/w1") == before


def test_a_token_works_until_it_has_expired_and_then_nothing_is_touched(kube: SharedKube) -> None:
    kube.api.post("/api/v1/nodes", node("w1"))
    good = kube.server.account_token("ebbtide:ebbtide", lasts_seconds=600)
    cluster = KubeCluster(connect(kube.server.kubeconfig("good", token=good)))
    assert [found.name for found in cluster.read().nodes] == ["w1"]
    cluster.close()
    late = kube.server.account_token("ebbtide:ebbtide", lasts_seconds=-60)
    cluster = KubeCluster(connect(kube.server.kubeconfig("late", token=late)))
    with pytest.raises(Usage, match="does not accept our credentials: renew the token or log in again"):
        cluster.read()
    cluster.close()


def test_a_live_assessment_says_the_same_and_ends_with_2(
    kube: SharedKube, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kube.api.post("/api/v1/nodes", node("w1"))
    expired = kube.server.account_token("ebbtide:ebbtide", lasts_seconds=-60)
    monkeypatch.setenv("KUBECONFIG", str(kube.server.kubeconfig("expired", token=expired)))
    assert assess_command("live", built_in_book(), False, None) == 2
    assert "renew the token" in capsys.readouterr().err
    monkeypatch.setenv("KUBECONFIG", str(kube.server.kubeconfig()))
    assert assess_command("live", built_in_book(), False, None) == 0
    assert "1 node, " in capsys.readouterr().out


@pytest.mark.parametrize("text", [None, "", "clusters: 5", "{{", "current-context: none\n"])
def test_a_kubeconfig_that_is_no_good_is_named(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match="give a complete kubeconfig"):
        connect(path)


def test_a_control_plane_that_goes_away_is_an_error_and_not_an_empty_cluster(kube: SharedKube) -> None:
    with kube_server(controllers=False) as server:
        server.api.post("/api/v1/nodes", node("w1"))
        cluster = KubeCluster(connect(server.kubeconfig()), watching=True)
        assert [found.name for found in cluster.read().nodes] == ["w1"]
    eventually(lambda: fails(cluster), 10, "an error")
    cluster.close()


def fails(cluster: KubeCluster) -> bool:
    try:
        cluster.read()
    except Retryable:
        return True
    return False


def test_the_doctor_finds_nothing_with_the_least_rights_and_names_what_is_missing_without(
    kube: SharedKube,
) -> None:
    assert all(finding.ok for finding in examine(connect(kube.kubeconfig)))
    found = list(examine(connect(kube.server.kubeconfig("nobody", token=NOBODY_TOKEN))))
    missing = [finding for finding in found if not finding.ok]
    assert len(missing) == 1
    assert "list pods" in missing[0].says
    assert "create pods/eviction" in missing[0].says
    assert missing[0].fix == "apply deploy/manifests/rbac.yaml"
    nowhere = kube.server.kubeconfig("nowhere", server=f"https://127.0.0.1:{free_port()}")
    assert [finding.ok for finding in examine(connect(nowhere))] == [False]


GATES = ServiceRef("ebbtide", "ebbtide-gate")
SHOP, DB, GONE = (ServiceRef("default", name) for name in ("doctor-shop", "doctor-db", "doctor-gone"))
SERVICES = "/api/v1/namespaces/default/services"


def service(ref: ServiceRef, **spec: Any) -> Json:
    named = {"name": ref.name, "namespace": ref.namespace}
    ports = [{"name": "web", "port": 80, "targetPort": 8080}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": {"ports": ports, **spec}}


def test_the_doctor_knows_whether_wake_on_request_can_work(kube: SharedKube) -> None:
    """What a policy with a gate needs: rights in each namespace, gates that are ready, and Services that a
    gate can stand in for."""
    kubectl, manifest = kube.server.kubectl, str(RBAC.with_name("gate.yaml"))
    connection = connect(kube.kubeconfig)
    wanted = {"shop": (SHOP,), "db": (DB, GONE)}

    def found() -> list[Finding]:
        return list(examine_gate(connection, GATES, ["default"], wanted))

    def wrong() -> list[str]:
        return [finding.says for finding in found() if not finding.ok]

    kubectl("delete", "--ignore-not-found", "-f", manifest)
    eventually(lambda: len(found()) == 1, 30, "rights that are gone")
    (missing,) = found()
    assert "create endpointslices in default" in missing.says
    assert "list endpointslices in ebbtide" in missing.says
    try:
        assert not kubectl("apply", "-f", manifest).returncode
        kubectl("delete", "deployment", "ebbtide-gate", "--namespace=ebbtide")
        kube.api.post(SERVICES, service(SHOP, selector={"app": "shop"}))
        kube.api.post(SERVICES, service(DB, selector={"app": "db"}, clusterIP="None"))
        eventually(lambda: "not allowed" not in wrong()[0], 30, "the rights of the manifest")
        assert wrong() == [
            "no gate is ready behind Service ebbtide/ebbtide-gate: policies with a gate stay up",
            "policy db: Service default/doctor-db is headless: its clients ask DNS for pods and connect to "
            "them directly",
            "policy db: there is no Service default/doctor-gone",
        ]
        assert found()[2].says == "policy shop: Service default/doctor-shop can be taken over"
        elsewhere = {"web": (ServiceRef("other", "web"),)}
        last = list(examine_gate(connection, GATES, ["default"], elsewhere))[-1]
        assert (last.ok, "add other there" in last.says) == (False, True)
    finally:
        kubectl("delete", "-f", manifest)
        for ref in (SHOP, DB):
            kubectl("delete", "service", ref.name, "--ignore-not-found")
        connection.close()


def test_the_doctor_names_policies_whose_gate_is_nowhere(kube: SharedKube) -> None:
    connection = connect(kube.kubeconfig)
    (finding,) = examine_gate(connection, None, [], {"shop": (SHOP,)})
    assert (finding.ok, finding.says) == (
        False,
        "policy shop has a gate, and gate.service is empty: it stays up",
    )
    assert list(examine_gate(connection, None, [], {})) == []
    connection.close()


def test_the_doctor_asks_for_the_rights_on_workloads_where_policies_scale_them(kube: SharedKube) -> None:
    kubectl, manifest = kube.server.kubectl, str(RBAC.with_name("workload-scaling.yaml"))
    kubectl("delete", "--ignore-not-found", "-f", manifest)
    connection = connect(kube.kubeconfig)

    def missing() -> list[Finding]:
        return [finding for finding in examine(connection, scales_workloads=True) if not finding.ok]

    eventually(lambda: bool(missing()), 30, "rights that are gone")
    (wrong,) = missing()
    for right in ("watch deployments", "patch deployments/scale", "patch statefulsets/scale"):
        assert right in wrong.says
    assert "list horizontalpodautoscalers" in wrong.says
    assert wrong.fix == "apply deploy/manifests/workload-scaling.yaml"
    try:
        assert not kubectl("apply", "-f", manifest).returncode
        eventually(lambda: not missing(), 30, "the rights of the manifest")
    finally:
        kubectl("delete", "-f", manifest)
        connection.close()
