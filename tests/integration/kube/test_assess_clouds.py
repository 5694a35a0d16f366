"""`ebbtide assess` on five clusters as EKS, GKE, AKS, K3s and kubeadm document them. Every number was worked
out by hand; the working is next to it."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ebbtide.config.prices import read_book
from ebbtide.entrypoints.assess.command import assess_command
from tests.dumps import VERSIONS, as_dump, node, place

Json = dict[str, Any]
BOOK = read_book(None)


def pod(name: str, on: str, cpu: str = "1", memory: str = "1Gi", **more: Any) -> Json:
    """Of a ReplicaSet, unless `bare`."""
    owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": True}]
    pending = not on
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "labels": {"app": more.get("app", name)},
            "ownerReferences": [] if more.get("bare") else owner,
        },
        "spec": {
            "nodeName": on,
            "nodeSelector": more.get("selector", {}),
            "containers": [{"name": "a", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
        },
        "status": {
            "phase": "Pending" if pending else "Running",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
            if pending
            else [{"type": "Ready", "status": "True"}],
        },
    }


def used(name: str, cpu: str, memory: str) -> Json:
    return {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "NodeMetrics",
        "metadata": {"name": name},
        "timestamp": "2026-11-15T12:00:00Z",
        "usage": {"cpu": cpu, "memory": memory},
    }


def no_disruption(app: str) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"{app}-budget", "namespace": "shop", "uid": f"pdb-{app}", "generation": 1},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}},
        "status": {
            "disruptionsAllowed": 0,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
            "observedGeneration": 1,
        },
    }


def assessed(items: list[Json], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Json:
    file = tmp_path / "dump.json"
    file.write_bytes(as_dump(items))
    page, text = tmp_path / "page.html", tmp_path / "page.md"
    assert assess_command(str(file), BOOK, True, page, text) == 0
    found: Json = json.loads(capsys.readouterr().out)
    found["page"], found["text"] = page.read_text(), text.read_text()
    return found


def span(result: Json, name: str, currency: str = "USD") -> tuple[Decimal, Decimal]:
    amounts = result[name][currency]
    return Decimal(amounts["low"]), Decimal(amounts["high"])


def named(result: Json, name: str) -> Json:
    found: Json = next(each for each in result["nodes"] if each["name"] == name)
    return found


def test_eks_in_frankfurt_with_a_spot_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """m7i.large is 0.1008 in us-east-1; Frankfurt is 20 % above, give or take 10 %: 0.108864 to 0.133056.
    c7g.xlarge is 0.145, so 0.1566 to 0.1914 there, and spot 30 to 60 % of that: 0.04698 to 0.11484."""
    region = "eu-central-1"
    spot = {"eks.amazonaws.com/capacityType": "SPOT"}

    def worker(name: str, kind: str, zone: str, labels: dict[str, str]) -> Json:
        both = {**labels, **place(kind, f"{region}{zone}", region)}
        return node(name, VERSIONS["eks"], both, f"aws:///{region}{zone}/i-{name}", cpu="2", memory="4Gi")

    items = [
        worker("a1", "m7i.large", "a", {}),
        worker("a2", "m7i.large", "a", {}),
        worker("b1", "m7i.large", "b", {}),
        worker("b2", "c7g.xlarge", "b", spot),
        pod("web-1", "a1", "1", "1Gi"),
        pod("web-2", "a2", "500m", "1Gi"),
        pod("db-0", "b1", "1", "1Gi", app="db"),
        pod("solo", "b1", "100m", "128Mi", bare=True),
        no_disruption("db"),
        used("a1", "200m", "1Gi"),
    ]
    result = assessed(items, tmp_path, capsys)
    low, high = Decimal("0.108864"), Decimal("0.133056")
    assert span(result, "costRange") == (3 * low + Decimal("0.04698"), 3 * high + Decimal("0.11484"))
    assert result["costPerHour"] == {}
    assert named(result, "a1")["pricePerHour"] is None
    assert "eu-central-1 is about 20% above it" in named(result, "a1")["priceBasis"]
    # Asked for: a1 half of its CPU, a2 a quarter, b1 1.1 of 2, b2 nothing.
    assert span(result, "wasteRange")[0] == low * Decimal("1.70") + Decimal("0.04698")
    # a1 uses 0.2 of 2 CPUs and 1 of 4 GiB: a quarter, so three quarters are not used.
    assert span(result, "unusedRange") == (low * Decimal("0.75"), high * Decimal("0.75"))
    assert (named(result, "a1")["cpuUsed"], named(result, "a1")["memoryUsed"]) == (0.1, 0.25)
    assert result["removable"] == ["a1", "b2"]
    assert named(result, "a1")["podsGoTo"] == {"shop/web-1": "a2"}
    assert sorted(named(result, "b1")["blockers"]) == [
        "shop/db-0 must wait: PodDisruptionBudget db-budget allows no disruption now",
        # With a1 and b2 gone, a2 has half a CPU left.
        "shop/db-0 would fit on no other node",
        "shop/solo has no controller that would create it again",
    ]
    assert "db-budget" in result["page"]
    assert "<svg" in result["page"]
    assert "| a1 |" in result["text"]
    # A reader of a range is told why it is one, on the page and in Markdown.
    for written in (result["page"], result["text"]):
        assert "Where the prices come from" in written
        assert "eu-central-1 is about 20% above it" in written.replace("\\", "")


def test_gke_in_iowa_with_a_pod_that_is_pending(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """e2-standard-4 is 0.13402284 in us-central1, exactly; Spot of it 9 to 40 %: 0.012062 to 0.053609."""
    region = "us-central1"

    def worker(name: str, kind: str, zone: str, labels: dict[str, str]) -> Json:
        both = {
            "cloud.google.com/gke-nodepool": "default",
            **labels,
            **place(kind, f"{region}-{zone}", region),
        }
        return node(
            name, "v1.33.4-gke.1000", both, f"gce://shop/{region}-{zone}/{name}", cpu="3920m", memory="13Gi"
        )

    items = [
        worker("gke-1", "e2-standard-4", "a", {}),
        worker("gke-2", "e2-standard-4", "b", {}),
        worker("gke-spot", "e2-standard-4", "b", {"cloud.google.com/gke-spot": "true"}),
        pod("web-1", "gke-1", "3920m", "1Gi"),
        pod("web-2", "gke-2", "3920m", "1Gi"),
        pod("huge", "", "8", "1Gi"),
        pod("picky", "", "100m", "1Gi", selector={"disk": "ssd"}),
    ]
    result = assessed(items, tmp_path, capsys)
    listed = Decimal("0.13402284")
    assert result["costPerHour"] == {"USD": str(2 * listed)}
    assert span(result, "costRange") == (2 * listed + Decimal("0.012062"), 2 * listed + Decimal("0.053609"))
    # Both full nodes have nothing idle; the spot node is empty.
    assert span(result, "wasteRange") == (Decimal("0.012062"), Decimal("0.053609"))
    why = {each["pod"]: each["why"] for each in result["pending"]}
    assert "needs 8000m CPU" in why["shop/huge"]
    assert "disk" in why["shop/picky"]
    assert "shop/huge" in result["page"]
    assert result["waitingPods"] == 2


def test_aks_in_west_europe_with_a_type_that_is_not_in_the_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard_D4s_v5 is 0.192 in eastus; another region is 5 % less to 70 % more: 0.1824 to 0.3264. A
    Standard_X4 of 4 CPUs and 16 GiB counts 8 units, 4 GiB as one CPU. By unit Standard_B2s is the cheapest,
    0.0416 / 3, and Standard_F2s_v2 the most expensive, 0.085 / 3."""
    region = "westeurope"

    def worker(name: str, kind: str) -> Json:
        return node(
            name,
            "v1.33.5",
            place(kind, f"{region}-1", region),
            f"azure:///subscriptions/x/{name}",
            cpu="4",
            memory="16Gi",
        )

    items = [
        worker("aks-1", "Standard_D4s_v5"),
        worker("aks-2", "Standard_X4"),
        pod("web-1", "aks-1"),
        pod("web-2", "aks-2"),
    ]
    result = assessed(items, tmp_path, capsys)
    known, sized = named(result, "aks-1"), named(result, "aks-2")
    assert (known["priceLow"], known["priceHigh"]) == ("0.182400", "0.326400")
    # 8 * 0.0416 / 3 = 0.110933, 5 % less; 8 * 0.085 / 3 = 0.226667, 70 % more.
    assert (sized["priceLow"], sized["priceHigh"]) == ("0.105386", "0.385334")
    assert "is not in the list; by its size" in sized["priceBasis"]
    assert result["typesWithoutPrice"] == ["Standard_D4s_v5", "Standard_X4"]
    # Two workers are always kept, also by repacking: at the middle of the ranges, 0.2544 and 0.24536, a
    # second Standard_X4 in place of the other saves 0.00904.
    assert result["removable"] == []
    again = result["repacked"]
    assert (again["costAfterPerHour"], again["savingPerHour"]) == ("0.490720", "0.009040")
    assert (again["removed"], again["launched"]) == (1, 1)
    assert known["reason"] == sized["reason"] == "2 workers are always kept"


def test_k3s_on_hetzner_is_priced_exactly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """cpx22 0.0096, cpx32 0.0168 twice, cpx42 0.0312: 0.0744 an hour, 54.31 a month."""
    version = VERSIONS["k3s"]
    server = {"node-role.kubernetes.io/control-plane": "true", **place("cpx22", "fsn1-dc14", "fsn1")}

    def agent(name: str, kind: str, cpu: str) -> Json:
        return node(
            name, version, place(kind, "fsn1-dc14", "fsn1"), f"hcloud://{name}", cpu=cpu, memory="8Gi"
        )

    items = [
        node("server-1", version, server, "hcloud://1", cpu="2", memory="4Gi"),
        agent("agent-1", "cpx32", "4"),
        agent("agent-2", "cpx32", "4"),
        agent("agent-3", "cpx42", "8"),
        pod("web-1", "agent-1", "2", "1Gi"),
        pod("web-2", "agent-2", "1", "1Gi"),
        pod("web-3", "agent-3", "2", "1Gi"),
    ]
    result = assessed(items, tmp_path, capsys)
    assert result["costPerHour"] == {"EUR": "0.0744"}
    assert span(result, "costRange", "EUR") == (Decimal("0.0744"), Decimal("0.0744"))
    # Idle: server all, agent-1 half, agent-2 three quarters, agent-3 three quarters.
    assert Decimal(result["wastePerHour"]["EUR"]) == Decimal("0.0096") + Decimal("0.0084") + Decimal(
        "0.0126"
    ) + Decimal("0.0234")
    # One of three workers may go: the others are kept as the minimum of two. Its two CPUs fit elsewhere.
    (gone,) = result["removable"]
    # K3s lets pods run on its server, which has room for them. A worker with room comes first.
    assert set(named(result, gone)["podsGoTo"].values()) == {"agent-2"}
    assert named(result, "server-1")["blockers"] == ["it is a node of the control plane"]
    # Two workers are always kept, and packing fills a node up to 70 %: without the cpx42 a cpx32 would carry
    # 3 of 4 CPUs. So one cpx32 goes, its 2 CPUs move to the cpx42: 0.0480 is left of 0.0648.
    repacked = result["repacked"]
    assert (repacked["costPerHour"], repacked["costAfterPerHour"]) == ("0.0648", "0.0480")
    assert (repacked["savingPerHour"], repacked["moves"], repacked["removed"]) == ("0.0168", 1, 1)
    assert "54.31 a month" in result["text"]


def test_kubeadm_on_own_machines_has_no_price_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody but their owner knows what they cost: no amount is made up."""
    version, control = VERSIONS["kubeadm"], "node-role.kubernetes.io/control-plane"
    items = [
        node("cp-1", version, {control: ""}, taints=[{"key": control, "effect": "NoSchedule"}]),
        node("w-1", version, cpu="4", memory="8Gi"),
        node("w-2", version, cpu="4", memory="8Gi"),
        node("w-3", version, cpu="4", memory="8Gi"),
        pod("web-1", "w-1", "3", "1Gi"),
        pod("web-2", "w-2", "3", "1Gi"),
        pod("web-3", "w-3", "3", "1Gi"),
    ]
    result = assessed(items, tmp_path, capsys)
    assert (result["costRange"], result["costPerHour"], result["removable"]) == ({}, {}, [])
    assert named(result, "w-1")["cpuShare"] == 0.75
    for name in ("w-1", "w-2", "w-3"):
        other = name[-1]
        assert f"shop/web-{other} would fit on no other node" in named(result, name)["blockers"]
    text = result["text"].replace("\\", "")
    assert "No price is known for 4 nodes. A price file can name them: ebbtide assess --prices FILE." in text
    # 9 of 15.76 CPUs, and 3 of 31.2 GiB: what is known without a price.
    assert "| of the CPU and memory, requested | 57% and 10% |" in text
    assert "| saved by removing nodes now | nothing |" in text
