"""The command line on a real API server, with the rights of deploy/manifests and EC2 played by moto."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.kube.services import KubeServices
from ebbtide.model.policy import GatePort, ServiceRef
from tests.e2e.shell import COMMAND, Shell, clean_environment
from tests.integration.kube.gatehouse import SLICES, members, service
from tests.integration.kube.objects import node
from tests.servers.moto import CREDENTIALS, REGION, MotoServer, shared_moto
from tests.servers.processes import eventually
from tests.servers.shared_kube import RBAC, SharedKube, shared_kube

TICK = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ  ")
CONFIG = """\
cluster: {{name: {name}, kind: kubernetes, kubeconfig: {kubeconfig}}}
cloud: {{kind: aws}}
aws: {{region: {region}, endpoint: "{endpoint}", image: {image}}}
join: {{server_url: "https://10.0.0.2:6443", token_parameter: /ebbtide/join-token}}
min_workers: 2
pending_up_sec: 0
interval_sec: 1
pools: [{{name: general, types: [m7i.large], zones: [{region}a, {region}b]}}]
"""


@pytest.fixture
def kube() -> SharedKube:
    found = shared_kube()
    found.clear()
    return found


@pytest.fixture
def shell(tmp_path: Path, kube: SharedKube) -> Shell:
    made = Shell(tmp_path)
    moto = shared_moto()
    keys = {"kubeconfig": kube.kubeconfig, "region": REGION, "endpoint": moto.url, "image": moto.image}
    made.write("ebbtide.yaml", CONFIG.format(name=f"e2e-{time.time_ns()}", **keys))
    kube.api.post(
        "/api/v1/nodes", node("server", pool="", labels={"node-role.kubernetes.io/control-plane": "true"})
    )
    return made


def launched(moto: MotoServer, folder: Path) -> list[Any]:
    name = (folder / "ebbtide.yaml").read_text().split("name: ")[1].split(",")[0]
    wanted = [{"Name": "tag:ebbtide.dev/cluster", "Values": [name]}]
    found = moto.client("ec2").describe_instances(Filters=wanted)
    return [one for reservation in found["Reservations"] for one in reservation["Instances"]]


def test_the_doctor_misses_nothing_but_a_source_of_cpu_and_a_plan_writes_nothing(shell: Shell) -> None:
    before = shell.contents()
    findings = json.loads(shell.run("doctor", "--json", environ=CREDENTIALS, code=1).out)
    wrong = [one for one in findings if not one["ok"]]
    assert [one["fix"] for one in wrong] == ["install metrics-server, or set metrics.prometheus_url"]
    assert any("aws shows 0 instances" in one["says"] for one in findings)
    plan = json.loads(shell.run("plan", "--json", environ=CREDENTIALS).out)
    assert plan["action"] == "scale_up"
    assert "No record yet" in shell.run("status", environ=CREDENTIALS).out
    assert shell.contents() == before
    assert launched(shared_moto(), shell.folder) == []


def test_one_tick_launches_what_is_missing_and_the_daemon_continues_from_there(shell: Shell) -> None:
    shell.run("once", environ=CREDENTIALS)
    assert len(launched(shared_moto(), shell.folder)) == 2
    environ = clean_environment(CREDENTIALS)
    with subprocess.Popen(
        [COMMAND, "run"], cwd=shell.folder, env=environ, stdout=subprocess.PIPE, text=True
    ) as daemon:
        assert daemon.stdout is not None
        told = next((line for line in daemon.stdout if TICK.match(line)), "")
        daemon.send_signal(signal.SIGTERM)
        out, _ = daemon.communicate(timeout=60)
    assert told, "it ended before its first tick"
    assert daemon.returncode == 0
    assert "Stopped: the lease is released" in out
    assert len(launched(shared_moto(), shell.folder)) == 2


def test_services_are_given_back_before_an_uninstall_unless_nobody_would_answer(
    shell: Shell, kube: SharedKube
) -> None:
    gate = "gate: {service: ebbtide/ebbtide-gate, namespaces: [default]}\n"
    shell.write("ebbtide.yaml", (shell.folder / "ebbtide.yaml").read_text() + gate)
    kubectl, manifest = kube.server.kubectl, str(RBAC.with_name("gate.yaml"))
    assert not kubectl("apply", "-f", manifest).returncode
    kubectl("delete", "deployment", "ebbtide-gate", "--namespace=ebbtide")
    question = "delete endpointslices.discovery.k8s.io -n default"
    eventually(lambda: kube.server.can_i("ebbtide:ebbtide", question), 30, "the rights")
    refs = [ServiceRef("default", name) for name in ("release-shop", "release-wiki")]
    connection = connect(kube.kubeconfig)
    services = KubeServices(connection, ServiceRef("ebbtide", "ebbtide-gate"), ["default"])
    try:
        for ref in refs:
            kube.api.post("/api/v1/namespaces/default/services", service(ref.name, {"web": 80}))
            services.take_over(services.read(ref), [GatePort("web", 20_000)], ["192.0.2.1"])
        pod = members("192.0.2.9")
        pod["metadata"] = {"name": "a-pod", "labels": {"kubernetes.io/service-name": refs[0].name}}
        kube.api.post(SLICES.format("default"), pod)
        assert "give --all to release every Service" in shell.run("gate", "release", code=2).err
        assert len(services.list_taken()) == 2
        said = shell.run("gate", "release", "--all", code=1).out
        assert "Service default/release-shop: released" in said
        assert "Service default/release-wiki: kept, since no pod is ready." in said
        assert [each.service for each in services.list_taken()] == refs[1:]
        assert (
            "Service default/release-wiki: released" in shell.run("gate", "release", "--all", "--force").out
        )
        assert services.list_taken() == []
        assert shell.run("gate", "release", "--all").out == ""
    finally:
        connection.close()
        for ref in refs:
            kubectl("delete", "service", ref.name, "--ignore-not-found")
        kubectl("delete", "endpointslice", "a-pod", "--ignore-not-found")
        kubectl("delete", "-f", manifest)


def steps_in(text: str) -> str:
    """The commands that the file tells a person to type, as they stand there."""
    return "\n".join(line.removeprefix("#   $ ") for line in text.splitlines() if line.startswith("#   $ "))


def test_init_looks_at_the_cluster_and_its_steps_make_a_kubeconfig_with_which_doctor_misses_nothing_else(
    tmp_path: Path, kube: SharedKube
) -> None:
    shell, moto = Shell(tmp_path), shared_moto()
    place = {"node.kubernetes.io/instance-type": "m7i.large", "topology.kubernetes.io/zone": f"{REGION}a"}
    for name in ("worker-1", "worker-2"):
        kube.api.post("/api/v1/nodes", node(name, pool="", labels=place))
    before = kube.api.get("/api/v1/nodes")["items"]
    admin = str(kube.server.kubeconfig())
    shell.run("init", "--kubeconfig", admin, "--cloud", "aws", "--name", "shop", "--image", moto.image)
    assert kube.api.get("/api/v1/nodes")["items"] == before
    written = (tmp_path / "ebbtide.yaml").read_text()
    path = f"{kube.server.binaries}:/usr/bin:/bin"
    environ = {"PATH": path, "KUBECONFIG": admin, "HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", steps_in(written)],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    own = {**CREDENTIALS, "AWS_ENDPOINT": moto.url, "CLUSTER_KUBECONFIG": "ebbtide.kubeconfig"}
    findings = json.loads(shell.run("doctor", "--json", environ=own, code=1).out)
    wrong = [one["fix"] for one in findings if not one["ok"]]
    missing = [
        "set join.server_url",  # neither is in the cluster, where `init` could read it
        "set join.ca_cert_hash",
        "install metrics-server, or set metrics.prometheus_url",
        "run `ebbtide adopt --dry-run`",
    ]
    assert wrong == missing


def running(count: int, **tags: str) -> list[str]:
    """Machines that somebody else launched."""
    moto = shared_moto()
    asked = {"ImageId": moto.image, "MinCount": count, "MaxCount": count, "InstanceType": "m7i.large"}
    found = moto.client("ec2").run_instances(**asked)["Instances"]
    ids = [one["InstanceId"] for one in found]
    if tags:
        named = [{"Key": key.replace("__", ":"), "Value": value} for key, value in tags.items()]
        moto.client("ec2").create_tags(Resources=ids, Tags=named)
    return ids


def test_nodes_that_are_there_are_named_not_replaced_and_then_adopted_once(
    shell: Shell, kube: SharedKube
) -> None:
    place = {"node.kubernetes.io/instance-type": "m7i.large", "topology.kubernetes.io/zone": f"{REGION}a"}
    ids = running(2)
    for number, id in enumerate(ids):
        spec = {"providerID": f"aws:///{REGION}a/{id}"}
        kube.api.post("/api/v1/nodes", node(f"old-{number}", pool="", labels=place, spec=spec))
    sentence = (
        "2 nodes that no pool claims are not counted (old-0, old-1): take them over with `ebbtide adopt`"
    )
    plan = json.loads(shell.run("plan", "--json", environ=CREDENTIALS).out)
    assert plan["action"] == "nothing"
    assert sentence in plan["reason"]
    assert any(sentence in warning for warning in plan["warnings"])
    findings = json.loads(shell.run("doctor", "--json", environ=CREDENTIALS, code=1).out)
    assert any(sentence in one["says"] and not one["ok"] for one in findings)
    assert sentence in shell.run("once", environ=CREDENTIALS).out
    assert launched(shared_moto(), shell.folder) == []

    dry = shell.run("adopt", "--dry-run", environ=CREDENTIALS).out
    assert "to adopt     old-0 -> general" in dry
    assert launched(shared_moto(), shell.folder) == []
    shell.run("adopt", "--node", "old-0", environ=CREDENTIALS)
    told = json.loads(shell.run("adopt", "--json", environ=CREDENTIALS).out)
    assert [(one["node"], one["state"], one["instance"]) for one in told] == [
        ("old-0", "adopted", ids[0]),
        ("old-1", "adopted", ids[1]),
    ]
    before = kube.api.get("/api/v1/nodes/old-1")["metadata"]
    shell.run("adopt", environ=CREDENTIALS)
    after = kube.api.get("/api/v1/nodes/old-1")["metadata"]
    assert after["resourceVersion"] == before["resourceVersion"]
    assert after["labels"]["ebbtide.dev/instance-id"] == ids[1]
    assert len(launched(shared_moto(), shell.folder)) == 2
    plan = json.loads(shell.run("plan", "--json", environ=CREDENTIALS).out)
    assert not any("no pool claims" in warning for warning in plan["warnings"])
    assert "aws shows 2 instances" in shell.run("doctor", environ=CREDENTIALS, code=1).out


def test_what_an_auto_scaling_group_keeps_is_not_adopted(shell: Shell, kube: SharedKube) -> None:
    place = {"node.kubernetes.io/instance-type": "m7i.large", "topology.kubernetes.io/zone": f"{REGION}a"}
    (id,) = running(1, aws__autoscaling__groupName="eks-general")
    spec = {"providerID": f"aws:///{REGION}a/{id}"}
    kube.api.post("/api/v1/nodes", node("managed", pool="", labels=place, spec=spec))
    told = shell.run("adopt", "--node", "managed", environ=CREDENTIALS, code=1).out
    assert "Auto Scaling group eks-general would replace it when it is removed" in told
    assert "ebbtide.dev/pool" not in kube.api.get("/api/v1/nodes/managed")["metadata"]["labels"]
    refused = shell.run("adopt", "--pool", "nowhere", environ=CREDENTIALS, code=2).err
    assert "there is no pool 'nowhere'; nothing was changed" in refused
