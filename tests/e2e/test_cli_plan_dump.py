"""`ebbtide plan --dump`: what one tick would do for a cluster as kubectl printed it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.shell import Shell

ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
CONFIG = """
pools:
  - {name: general, types: [m7i.large, c7i.2xlarge], zones: [us-east-1a, us-east-1b]}
min_workers: 1
max_workers: 20
"""


def node(number: int, pool: str = "general") -> dict[str, Any]:
    labels = {
        "node.kubernetes.io/instance-type": "m7i.large",
        "topology.kubernetes.io/zone": ZONES[number % 3],
        **({"ebbtide.dev/pool": pool} if pool else {}),
    }
    return {
        "kind": "Node",
        "metadata": {
            "name": f"n{number}",
            "uid": f"n{number}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
        },
        "spec": {},
        "status": {
            "allocatable": {"cpu": "1930m", "memory": "7000Mi", "pods": "29"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pending_pod(number: int, cpu: str = "500m") -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"p{number}",
            "namespace": "default",
            "uid": f"p{number}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"kind": "ReplicaSet", "uid": "rs", "controller": True}],
        },
        "spec": {"containers": [{"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]},
        "status": {"phase": "Pending"},
    }


def dump(*items: dict[str, Any]) -> str:
    return json.dumps({"kind": "List", "items": items})


def test_launches_are_listed_with_type_zone_price_pods_and_the_bound(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write("ebbtide.yaml", CONFIG)
    shell.write("d.json", dump(node(0), node(1, pool=""), *(pending_pod(n) for n in range(40))))
    before = shell.contents()
    data = json.loads(shell.run("plan", "--dump", "d.json", "--json").out)
    assert shell.contents() == before, "nothing is written"
    assert data["action"] == "scale_up"
    assert data["not_counted"] == ["n1"]
    on_new = sum(len(launch["pods"]) for launch in data["launches"])
    assert on_new == 40 - 3 - 3, "three fit on each node that is there, counted or not"
    assert {launch["zone"] for launch in data["launches"]} <= set(ZONES[:2])
    assert sum(launch["this_tick"] for launch in data["launches"]) == 2, "MAX_BATCH_UP"
    cost = sum(float(launch["price"]) for launch in data["launches"])
    assert abs(float(data["cost_per_hour"]) - cost) < 1e-9
    assert 0 < data["bound_per_hour"] <= cost
    told = shell.run("plan", "--dump", "d.json").out
    assert "not counted, because no pool claims them: n1" in told
    assert "in this tick" in told


def test_without_a_configuration_pools_are_those_of_the_nodes(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write("d.json", dump(node(0, pool=""), *(pending_pod(n) for n in range(12))))
    data = json.loads(shell.run("plan", "--dump", "d.json", "--json").out)
    assert [launch["type"] for launch in data["launches"]] == ["m7i.large"] * 3
    assert data["not_counted"] == []


def test_a_pod_that_no_type_holds_is_named_and_idle_nodes_would_go(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write("ebbtide.yaml", CONFIG)
    shell.write("d.json", dump(node(0), pending_pod(1, cpu="64")))
    data = json.loads(shell.run("plan", "--dump", "d.json", "--json").out)
    assert data["launches"] == []
    assert "default/p1" in data["not_served"][0]
    running = pending_pod(1)
    running["spec"]["nodeName"], running["status"] = "n0", {"phase": "Running"}
    shell.write("idle.json", dump(node(0), node(1), node(2), node(3), running))
    data = json.loads(shell.run("plan", "--dump", "idle.json", "--json").out)
    assert (data["action"], len(data["removals"])) == ("scale_down", 1)


def test_nodes_that_have_little_to_do_would_go_where_nodes_are_judged_one_by_one(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write("ebbtide.yaml", f"{CONFIG}scale_down_by: node\n")
    pods = [pending_pod(number) for number in range(4)]
    for pod, name in zip(pods, ("n0", "n0", "n0", "n3"), strict=True):
        pod["spec"]["nodeName"], pod["status"] = name, {"phase": "Running"}
    shell.write("d.json", dump(node(0), node(3), node(1), node(4), *pods))
    data = json.loads(shell.run("plan", "--dump", "d.json", "--json").out)
    assert data["action"] == "scale_down"
    assert set(data["removals"]) < {"n1", "n3", "n4"}


def test_a_dump_that_is_missing_or_cut_off_says_how_to_make_one(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert (
        "kubectl get nodes,pods,pdb,pv,pvc -A -o json" in shell.run("plan", "--dump", "no.json", code=2).err
    )
    shell.write("cut.json", dump(node(0))[:-20])
    assert "cut off" in shell.run("plan", "--dump", "cut.json", code=2).err
    shell.write("empty.json", dump())
    assert "no node" in shell.run("plan", "--dump", "empty.json", code=2).err


def test_a_plan_fills_headroom_after_pending_pods_and_removes_no_node_that_holds_it(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write("ebbtide.yaml", CONFIG + "headroom: [{cpu: 1500m, memory: 2Gi, count: 2}]\n")
    shell.write("d.json", dump(node(0), node(1), pending_pod(0, cpu="1")))
    data = json.loads(shell.run("plan", "--dump", "d.json", "--json").out)
    assert data["action"] == "scale_up"
    assert [(each["wanted"], each["there"], each["missing"]) for each in data["headroom"]] == [(2, 1, 1)]
    assert [(each["pods"], each["headroom"]) for each in data["launches"]] == [([], 1)]
    told = shell.run("plan", "--dump", "d.json").out
    assert "Nodes that the pending pods and the headroom need: 1" in told
    assert "headroom: 2 pods of 1500m CPU and 2048 MiB: room for 1 of 2, 1 missing" in told
    running = pending_pod(1, cpu="100m")
    running["spec"]["nodeName"], running["status"] = "n0", {"phase": "Running"}
    shell.write("idle.json", dump(node(0), node(3), running))
    data = json.loads(shell.run("plan", "--dump", "idle.json", "--json").out)
    assert (data["action"], data["removals"]) == ("nothing", [])
    assert "would have room for 1 without it, 2 with it" in data["reason"]
