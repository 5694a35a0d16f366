"""To zero when idle and back on request, on a real control plane, with the rights of the service account."""

from __future__ import annotations

from ebbtide.model.idle import Phase
from tests.integration.kube.objects import node, template, workload
from tests.integration.kube.sleepers import sleepers
from tests.servers.processes import eventually
from tests.servers.shared_kube import SharedKube

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CYCLES, REPLICAS = 3, 2


def test_an_idle_deployment_goes_to_zero_and_who_wakes_it_is_answered_when_it_is_ready(
    kube: SharedKube, rights: None
) -> None:
    kube.api.post("/api/v1/nodes", node("w1"))
    kube.api.post(DEPLOYMENTS, workload("Deployment", "web", REPLICAS, template("web")))

    def ready() -> int:
        found: int = kube.api.get(f"{DEPLOYMENTS}/web")["status"].get("readyReplicas", 0)
        return found

    eventually(lambda: ready() == REPLICAS, 60, "a ready deployment")
    with sleepers(kube.kubeconfig, ["web"]) as found:
        (policy,) = found.policies
        for _ in range(CYCLES):
            found.sleep()
            assert kube.api.get(f"{DEPLOYMENTS}/web")["spec"]["replicas"] == 0
            eventually(lambda: not kube.api.items("/api/v1/namespaces/default/pods"), 60, "no pod")
            answer = found.wake(policy)
            assert (answer.code, answer.body["ready"], answer.body["status"]) == (200, True, "waking")
            assert (answer.body["previous_replicas"], answer.body["target_replicas"]) == (0, REPLICAS)
            assert ready() == REPLICAS
        state = found.scaling.ports.policies.find_state(policy.id)
    assert state is not None
    assert (state.phase, state.wake_count, len(state.wakes)) == (Phase.ACTIVE, CYCLES, CYCLES)
