"""SleepPolicies on a real API server, with the rights of the service account: what the schema refuses, what
`kubectl get` shows, conflicts, annotations, and how a policy ends with its object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.kube.doctor import examine_sleep_policies
from ebbtide.model.idle import Phase
from tests.integration.kube.chart import CHART
from tests.integration.kube.declaring import OBJECTS, Reconciler, reconciler, sleep_policy
from tests.integration.kube.objects import Json, node, template, workload
from tests.memory_declarations import FULL_GATE, GATE_OF_FULL
from tests.policy_harness import make_policy, make_ref
from tests.servers.kube_api import ApiRefused
from tests.servers.processes import eventually
from tests.servers.shared_kube import RBAC, SharedKube, shared_kube

MANIFEST = RBAC.with_name("sleep-policies.yaml")
CRD = CHART / "crds" / "sleeppolicies.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture(scope="module")
def manifest(rights: None) -> Iterator[None]:
    """The definition of SleepPolicies and the rights on them, next to those for workloads."""
    server = shared_kube().server
    applied = server.kubectl("apply", "-f", str(MANIFEST))
    assert not applied.returncode, applied.stderr
    told = server.kubectl("wait", "--for=condition=Established", "crd/sleeppolicies.ebbtide.dev")
    assert not told.returncode, told.stderr
    question = "patch sleeppolicies.ebbtide.dev --subresource=status -n default"
    eventually(lambda: server.can_i("ebbtide:ebbtide", question), 30, "the rights")
    yield
    server.kubectl("delete", "-f", str(MANIFEST))


@pytest.fixture
def cluster(kube: SharedKube, manifest: None) -> Iterator[Reconciler]:
    """Two ready Deployments of two replicas, no SleepPolicy, and a runner."""
    kube.api.delete(OBJECTS)
    kube.api.post("/api/v1/nodes", node("w1"))
    for name in ("web", "api"):
        kube.api.post(DEPLOYMENTS, workload("Deployment", name, 2, template(name)))
    eventually(lambda: all(ready(kube, name) == 2 for name in ("web", "api")), 60, "ready deployments")
    with reconciler(kube.kubeconfig) as found:
        yield found
    kube.api.delete(OBJECTS)


def ready(kube: SharedKube, name: str) -> int:
    found: int = kube.api.get(f"{DEPLOYMENTS}/{name}").get("status", {}).get("readyReplicas", 0)
    return found


def replicas(kube: SharedKube, name: str = "web") -> int:
    found: int = kube.api.get(f"{DEPLOYMENTS}/{name}")["spec"]["replicas"]
    return found


def condition(kube: SharedKube, name: str = "nights", kind: str = "Ready") -> tuple[str, str, str]:
    status = kube.api.get(f"{OBJECTS}/{name}")["status"]
    (found,) = [each for each in status["conditions"] if each["type"] == kind]
    return found["status"], found["reason"], found["message"]


def test_the_chart_and_the_manifest_have_the_same_definition() -> None:
    first = next(yaml.safe_load_all(MANIFEST.read_text()))
    assert first == yaml.safe_load(CRD.read_text())


GATE = {"services": ["web"]}
IDLE = {"after": "30m", "signals": [{"kind": "reported"}]}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"workloads": []}, "spec.workloads in body should have at least 1 items"),
        ({"workloads": [{"name": "web"}, {"name": "web"}]}, "Duplicate value"),
        (
            {"workloads": [{"kind": "DaemonSet", "name": "web"}]},
            'supported values: "Deployment", "StatefulSet"',
        ),
        ({"workloads": [{"name": "Web"}]}, "spec.workloads[0].name"),
        ({"workloads": [{"kind": "Deployment"}]}, "spec.workloads[0].name: Required value"),
        ({"idle": None}, "it would never sleep: give idle, nights or schedules"),
        ({"idle": {**IDLE, "after": "half an hour"}}, "spec.idle.after"),
        ({"idle": {**IDLE, "after": "0s"}}, "give a duration of more than 0, such as 30m"),
        ({"idle": {**IDLE, "signals": []}}, "spec.idle.signals"),
        ({"idle": {**IDLE, "signals": [{"kind": "cpu"}]}}, "a signal has a query in PromQL"),
        (
            {"idle": {**IDLE, "signals": [{"kind": "reported", "query": "up"}]}},
            "only the kind reported has none",
        ),
        ({"idle": {**IDLE, "signals": [{"kind": "magic", "query": "up"}]}}, "Unsupported value"),
        ({"nights": {"sleep": "20:00"}}, "spec.nights.wake: Required value"),
        ({"nights": {"sleep": "8pm", "wake": "08:00"}}, "spec.nights.sleep"),
        ({"nights": {"sleep": "08:00", "wake": "08:00"}}, "sleep and wake are the same time"),
        ({"schedules": [{"cron": "0 8 * * *"}]}, "a schedule does one thing"),
        ({"schedules": [{"cron": "0 8 * * *", "wake": True, "replicas": 1}]}, "a schedule does one thing"),
        ({"schedules": [{"cron": "0 8 * * *", "replicas": -1}]}, "should be greater than or equal to 0"),
        (
            {
                "workloads": [{"name": "a"}, {"name": "b"}],
                "schedules": [{"cron": "0 8 * * *", "replicas": 2}],
            },
            "a number of replicas is for one workload alone",
        ),
        ({"schedules": [{"cron": "0 8 * * *", "wake": True, "exceptDates": ["Christmas"]}]}, "exceptDates"),
        ({"timeZone": "Berlin, Germany"}, "spec.timeZone"),
        ({"hourlyCost": {"amount": "cheap"}}, "spec.hourlyCost.amount"),
        ({"enabled": "yes"}, "spec.enabled"),
        ({"gate": {"services": ["web", "web"]}}, "Duplicate value"),
        ({"gate": {**GATE, "protocol": "udp"}}, 'supported values: "tcp", "http", "minecraft"'),
        ({"gate": {**GATE, "hold": "2h"}}, "give a duration of more than 0 and at most 1h, such as 90s"),
        ({"gate": {**GATE, "hold": "0s"}}, "give a duration of more than 0 and at most 1h, such as 90s"),
        ({"gate": {**GATE, "maxHeld": 0}}, "spec.gate.maxHeld"),
        ({"gate": {**GATE, "sources": ["everybody"]}}, "spec.gate.sources[0]"),
        ({"gate": {**GATE, "firstBytes": "fe0"}}, "spec.gate.firstBytes"),
        ({"gate": {**GATE, "http": {"waitingPage": True}}}, "the rules under http are for the protocol http"),
        (
            {"gate": {**GATE, "protocol": "minecraft", "leastBytes": 4}},
            "firstBytes and leastBytes are for the protocol tcp",
        ),
        (
            {"gate": {**GATE, "protocol": "http", "http": {"neverWake": {"paths": ["robots.txt"]}}}},
            "spec.gate.http.neverWake.paths[0]",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_the_schema_refuses_what_is_wrong_and_says_what(
    manifest: None, spec: dict[str, Any], says: str
) -> None:
    body = sleep_policy("wrong", **{"idle": IDLE, **spec})
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    with pytest.raises(ApiRefused) as refused:
        shared_kube().api.post(OBJECTS, body)
    assert refused.value.code == 422
    assert says in str(refused.value).replace('\\"', '"')


def test_a_key_that_is_not_known_is_an_error_for_kubectl(manifest: None, tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(sleep_policy("typo", nigths={"sleep": "20:00", "wake": "08:00"})))
    told = shared_kube().server.kubectl("apply", "-f", str(file))
    assert told.returncode != 0
    assert 'unknown field "spec.nigths"' in told.stderr


def test_it_sleeps_tells_its_story_in_kubectl_and_wakes_when_its_object_is_deleted(
    kube: SharedKube, cluster: Reconciler
) -> None:
    kube.api.post(OBJECTS, sleep_policy(hourlyCost={"amount": "0.50"}))
    assert "policy default.nights: created, as SleepPolicy default/nights says" in cluster.round()
    assert condition(kube) == ("True", "Applied", "policy default.nights is as this object says")
    told = kube.server.kubectl("wait", "--for=condition=Ready", "sleeppolicy/nights", "--timeout=10s")
    assert not told.returncode, told.stderr
    cluster.until(lambda: replicas(kube) == 0, "zero replicas")
    cluster.until(lambda: condition(kube, kind="Asleep")[0] == "True", "the condition")
    shown = kube.server.kubectl("get", "sleeppolicies").stdout.splitlines()
    assert shown[0].split() == [
        *("NAME", "WORKLOADS", "PHASE", "SINCE", "SLEPT", "SAVED", "READY", "REASON", "AGE"),
    ]
    cells = shown[1].split()
    assert (cells[0], cells[1], cells[2], cells[-3], cells[-2]) == (
        "nights",
        "web",
        "Asleep",
        "True",
        "Applied",
    )
    kube.api.delete(f"{OBJECTS}/nights")
    assert "woken, since SleepPolicy default/nights is gone" in cluster.round()
    assert replicas(kube) == 2
    cluster.until(lambda: not cluster.policies, "the end of the policy")
    assert replicas(kube) == 2


def test_nothing_is_written_when_nothing_changed(kube: SharedKube, cluster: Reconciler) -> None:
    kube.api.post(OBJECTS, sleep_policy(idle={"after": "1h", "signals": [{"kind": "reported"}]}))
    cluster.until(lambda: bool((found := cluster.state()) and found.phase is Phase.IDLE), "an idle target")
    cluster.round()
    before = kube.api.get(f"{OBJECTS}/nights")
    assert (before["status"]["phase"], before["status"]["observedGeneration"]) == ("Idle", 1)
    policies = cluster.policies
    for _ in range(3):
        cluster.round()
    assert kube.api.get(f"{OBJECTS}/nights") == before, "not even its version"
    assert cluster.policies == policies


def test_a_change_is_applied_and_its_generation_told(kube: SharedKube, cluster: Reconciler) -> None:
    kube.api.post(OBJECTS, sleep_policy(idle={"after": "1h", "signals": [{"kind": "reported"}]}))
    cluster.round()
    since = kube.api.get(f"{OBJECTS}/nights")["status"]["conditions"][0]["lastTransitionTime"]
    night = {"nights": {"sleep": "20:00", "wake": "08:00"}, "timeZone": "Europe/Berlin"}
    kube.api.patch(f"{OBJECTS}/nights", {"spec": night})
    cluster.round()
    (policy,) = cluster.policies
    assert [each.zone for each in policy.schedules] == ["Europe/Berlin"] * 2
    status = kube.api.get(f"{OBJECTS}/nights")["status"]
    assert status["observedGeneration"] == 2
    assert status["conditions"][0]["lastTransitionTime"] == since, "it was ready before, too"


def test_what_only_ebbtide_can_check_is_a_condition(kube: SharedKube, cluster: Reconciler) -> None:
    kube.api.post(OBJECTS, sleep_policy(timeZone="Europe/Atlantis"))
    cluster.round()
    status, reason, message = condition(kube)
    assert (status, reason) == ("False", "Invalid")
    assert "'Europe/Atlantis' is not a time zone" in message
    assert cluster.policies == []


def test_every_rule_of_a_gate_can_be_set_and_one_that_is_not_a_network_is_a_condition(
    kube: SharedKube, cluster: Reconciler
) -> None:
    kube.api.post(OBJECTS, sleep_policy(gate=FULL_GATE))
    cluster.round()
    assert condition(kube)[1] == "Applied"
    (policy,) = cluster.policies
    assert policy.gate == GATE_OF_FULL
    wrong = {"spec": {"gate": {"sources": ["10.0.0.0/40"]}}}
    kube.api.patch(f"{OBJECTS}/nights", wrong)
    cluster.round()
    status, reason, says = condition(kube)
    assert (status, reason) == ("False", "Invalid")
    assert says.startswith("gate.sources[0]: ")


def test_two_policies_for_one_workload_are_a_conflict_that_names_the_other(
    kube: SharedKube, cluster: Reconciler
) -> None:
    by_hand = make_policy("by-hand", make_ref("api"), created_at=0, signals=())
    cluster.rows.put_policy(by_hand)
    kube.api.post(OBJECTS, sleep_policy("first"))
    cluster.round()
    kube.api.post(OBJECTS, sleep_policy("second"))
    kube.api.post(OBJECTS, sleep_policy("third", "api"))
    cluster.round()
    assert condition(kube, "first")[0] == "True"
    for name, other in (("second", "default.first"), ("third", "by-hand")):
        status, reason, message = condition(kube, name)
        assert (status, reason) == ("False", "Conflict")
        assert f"is the target of policy {other} already" in message
    versions = [
        kube.api.get(f"{OBJECTS}/{name}")["metadata"]["resourceVersion"] for name in ("second", "third")
    ]
    cluster.round()
    assert versions == [
        kube.api.get(f"{OBJECTS}/{name}")["metadata"]["resourceVersion"] for name in ("second", "third")
    ], "a conflict that lasts is no news"
    kube.api.delete(f"{OBJECTS}/first")
    cluster.until(lambda: condition(kube, "second")[0] == "True", "the second")


def annotate(kube: SharedKube, text: str | None, name: str = "web") -> None:
    kube.api.patch(f"{DEPLOYMENTS}/{name}", {"metadata": {"annotations": {"ebbtide.dev/sleep": text}}})


def told_of(kube: SharedKube) -> list[Json]:
    return [each for each in kube.api.items(EVENTS) if each["reason"] == "SleepPolicyRefused"]


def test_an_annotation_makes_the_same_policy_and_taking_it_away_ends_it(
    kube: SharedKube, cluster: Reconciler
) -> None:
    annotate(kube, "idle 1s reported; nights 20:00-08:00 Europe/Berlin")
    assert "policy default.deployment_web: created, as Deployment default/web says" in cluster.round()
    (policy,) = cluster.policies
    assert (policy.idle_threshold_seconds, len(policy.schedules)) == (1, 2)
    version = kube.api.get(f"{DEPLOYMENTS}/web")["metadata"]["generation"]
    cluster.round()
    assert kube.api.get(f"{DEPLOYMENTS}/web")["metadata"]["generation"] == version
    annotate(kube, None)
    cluster.until(lambda: not cluster.policies, "the end of the policy")
    assert (replicas(kube), told_of(kube)) == (2, [])


def test_an_annotation_that_is_not_understood_is_an_event_and_leaves_the_old_policy(
    kube: SharedKube, cluster: Reconciler
) -> None:
    annotate(kube, "idle 1h reported")
    cluster.round()
    annotate(kube, "idle for a while")
    for _ in range(3):
        cluster.round()
    (event,) = told_of(kube)
    assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "web")
    assert "ebbtide.dev/sleep: idle is not understood; allowed: idle 30m" in event["message"]
    assert cluster.policies[0].idle_threshold_seconds == 3600
    kube.api.post(OBJECTS, sleep_policy("also", "api"))
    annotate(kube, "idle 1h reported", "api")
    cluster.round()
    assert any("policy default.also already" in each["message"] for each in told_of(kube))


def test_without_the_right_to_read_them_or_without_their_definition_everything_stays(
    kube: SharedKube, cluster: Reconciler
) -> None:
    kube.api.post(OBJECTS, sleep_policy(idle={"after": "1h", "signals": [{"kind": "reported"}]}))
    cluster.round()
    before = cluster.policies
    binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/ebbtide-sleep-policies"
    server, question = kube.server, "list sleeppolicies.ebbtide.dev -A"
    try:
        kube.api.delete(binding)
        eventually(lambda: not server.can_i("ebbtide:ebbtide", question), 30, "no right")
        assert "not allowed to read SleepPolicies" in cluster.round()
        (denied,) = found_by_doctor(kube, True)
        assert (denied.ok, denied.fix) == (False, "apply deploy/manifests/sleep-policies.yaml")
        restore(kube)
        kube.api.delete(f"{CRDS}/sleeppolicies.ebbtide.dev")
        eventually(lambda: not crd_served(kube), 30, "no definition")
        assert "this cluster knows no SleepPolicy; apply deploy/manifests" in cluster.round()
        (missing,) = found_by_doctor(kube, True)
        assert "the cluster has no SleepPolicy" in missing.says
        assert cluster.policies == before
    finally:
        restore(kube)


def restore(kube: SharedKube) -> None:
    def restored() -> bool:
        applied = kube.server.kubectl("apply", "-f", str(MANIFEST))
        return not applied.returncode and crd_served(kube)

    eventually(restored, 60, "the definition")
    question = "list sleeppolicies.ebbtide.dev -A"
    eventually(lambda: kube.server.can_i("ebbtide:ebbtide", question), 30, "the rights")


def crd_served(kube: SharedKube) -> bool:
    try:
        kube.api.get(OBJECTS)
    except ApiRefused:
        return False
    return True


def found_by_doctor(kube: SharedKube, switched_on: bool) -> list[Any]:
    connection = connect(kube.kubeconfig)
    try:
        return list(examine_sleep_policies(connection, switched_on))
    finally:
        connection.close()


def test_doctor_says_whether_they_may_be_read_and_whether_anybody_applies_them(
    kube: SharedKube, cluster: Reconciler
) -> None:
    assert found_by_doctor(kube, False) == []
    (good,) = found_by_doctor(kube, True)
    assert (good.ok, good.says) == (True, "SleepPolicies may be read and reported on")
    kube.api.post(OBJECTS, sleep_policy())
    (unread,) = found_by_doctor(kube, False)
    assert (unread.ok, unread.fix) == (False, "set scale_to_zero.sleep_policies to true")


def test_ebbtide_may_list_them_and_write_their_status_and_nothing_else(
    kube: SharedKube, manifest: None
) -> None:
    def may(question: str) -> bool:
        return kube.server.can_i("ebbtide:ebbtide", question)

    assert may("list sleeppolicies.ebbtide.dev -A")
    assert may("patch sleeppolicies.ebbtide.dev --subresource=status -n default")
    verbs = ("get", "watch", "create", "update", "patch", "delete")
    assert [verb for verb in verbs if may(f"{verb} sleeppolicies.ebbtide.dev -n default")] == []
    assert not may("update sleeppolicies.ebbtide.dev --subresource=status -n default")


def test_who_may_edit_a_namespace_may_write_them(manifest: None) -> None:
    """The built-in roles edit and admin take rules in by these labels. The controller that does it does not
    run here, so the role is bound by itself."""
    server, role = shared_kube().server, "ebbtide-sleep-policies-edit"
    found = server.api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}")
    for name in ("edit", "admin"):
        assert found["metadata"]["labels"][f"rbac.authorization.k8s.io/aggregate-to-{name}"] == "true"
    server.kubectl("create", "serviceaccount", "editor", "--namespace=default")
    account = "--serviceaccount=default:editor"
    server.kubectl("create", "rolebinding", "editor", f"--clusterrole={role}", account, "--namespace=default")
    question = "create sleeppolicies.ebbtide.dev"
    eventually(lambda: server.can_i("default:editor", f"{question} -n default"), 30, "the right")
    assert not server.can_i("default:editor", f"{question} -n kube-system")
    server.kubectl("delete", "serviceaccount/editor", "rolebinding/editor", "--namespace=default")
