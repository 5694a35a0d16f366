"""`ebbtide assess` on dumps: numbers and reasons, and a clear error if the dump cannot be used."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from ebbtide.config.prices import read_book
from ebbtide.entrypoints.assess.command import assess_command
from tests.integration.kube.objects import Json, budget, node, seen_pod, template, workload
from tests.servers.processes import eventually
from tests.servers.shared_kube import SharedKube

BOOK = read_book(None)
MASTER = {"node-role.kubernetes.io/control-plane": "true"}


def small_cluster() -> list[Json]:
    bare = {"metadata": {"ownerReferences": [], "name": "solo"}}
    return [
        node("m1", "a", pool="", labels=MASTER),
        node("a1", "a", pool="", futureField={"x": 1}),
        node("a2", "a", pool=""),
        node("b1", "b", pool=""),
        node("b2", "b", pool="", labels={"node.kubernetes.io/instance-type": "m9.huge"}),
        {"kind": "Lease", "metadata": {"name": "something else"}},
        seen_pod("web-1", "a1", spec={"aFieldOfTheFuture": [1, 2]}),
        seen_pod("web-2", "a2"),
        seen_pod("solo", "b1", **bare),
        budget("db"),
    ]


def dump(path: Path, items: list[Json]) -> str:
    file = path / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(file)


def assessed(capsys: pytest.CaptureFixture[str], source: str) -> Json:
    assert assess_command(source, BOOK, True, None) == 0
    found: Json = json.loads(capsys.readouterr().out)
    return found


def verdicts(result: Json) -> dict[str, str]:
    return {n["name"]: n["reason"] for n in result["nodes"]}


def test_a_dump_of_any_cluster_is_priced_and_every_kept_node_has_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = assessed(capsys, dump(tmp_path, small_cluster()))
    assert result["removable"] == ["a1", "b2"]
    assert result["costPerHour"] == {"EUR": "0.0672"}
    assert result["typesWithoutPrice"] == ["m9.huge"]
    reasons = verdicts(result)
    assert reasons["m1"] == "it is a node of the control plane"
    assert reasons["a2"] == "2 workers are always kept, and others go first"
    assert "default/solo has no controller" in reasons["b1"]
    assert result["nodes"][1]["cpuShare"] == 0.025
    assert result["nodes"][4]["pricePerHour"] is None


def test_standard_input_a_price_book_and_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prices, page = tmp_path / "prices.yaml", tmp_path / "page.html"
    prices.write_text("currency: USD\nas_of: 2026-11-15\nprices: {cpx32: 0.5, m9.huge: 2}\n")
    text = Path(dump(tmp_path, small_cluster())).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert assess_command("-", read_book(prices), False, page) == 0
    said = capsys.readouterr().out
    assert "The nodes cost 4.00 USD an hour (2,920.00 a month)." in said
    assert "2 nodes could be removed now, which saves 2.50 USD an hour" in said
    assert "Nothing was touched." in said
    assert "could be removed" in page.read_text()


def test_names_in_a_dump_do_not_become_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    items = [node("[red]<script>x</script>", pool="", labels=MASTER)]
    assert assess_command(dump(tmp_path, items), BOOK, False, page) == 0
    assert "<script>" not in page.read_text()
    assert "[red]" in capsys.readouterr().out


def test_a_pod_that_cannot_be_read_keeps_its_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = seen_pod("odd", "a1", spec={"containers": [{"resources": {"requests": {"cpu": "lots"}}}]})
    broken: Any = seen_pod("broken", "a2", spec={"containers": 5})
    items = [*(node(name, pool="") for name in ("a1", "a2", "a3", "a4")), odd, broken]
    result = assessed(capsys, dump(tmp_path, items))
    assert set(result["removable"]) == {"a3", "a4"}
    assert "a specification that cannot be read" in verdicts(result)["a1"]
    assert "a specification that cannot be read" in verdicts(result)["a2"]
    assert "2 objects of kind Pod could not be read" in " ".join(result["notes"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json.dumps({"kind": "List", "items": small_cluster()})[:-400], "it is cut off"),
        ("", "it is cut off"),
        ("error: You must be logged in to the server\n", "no JSON that can be read"),
        ('{"kind": "Status", "message": "Forbidden"}', "not a list of Kubernetes objects"),
        ('{"kind": "List", "items": []}', "holds no node"),
        ('{"kind": "List", "items": [7, null, {"kind": "Node"}]}', "holds no node"),
    ],
)
def test_a_dump_that_is_no_good_is_refused_with_the_command_that_makes_a_good_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    path = tmp_path / "dump.json"
    path.write_text(text)
    assert assess_command(str(path), BOOK, False, None) == 2
    said = capsys.readouterr()
    assert not said.out
    assert says in said.err
    assert "kubectl get nodes,pods,pdb,pv,pvc -A -o json" in said.err


def test_files_that_are_not_there_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = dump(tmp_path, small_cluster())
    assert assess_command(str(tmp_path / "none.json"), BOOK, False, None) == 2
    assert assess_command(source, BOOK, False, tmp_path / "none" / "page.html") == 2
    assert capsys.readouterr().err.count("No such file or directory") == 2


def test_what_kubectl_prints_of_a_real_cluster_is_read_as_the_live_cluster_is(
    kube: SharedKube, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a1", "a2", "b1"):
        kube.api.post("/api/v1/nodes", node(name, name[0]))
    apps = "/apis/apps/v1/namespaces/default/deployments"
    kube.api.post(apps, workload("Deployment", "web", 4, template("web")))
    kube.api.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget("web"))
    eventually(lambda: len(kube.api.items("/api/v1/pods")) == 4, 30, "four pods")
    eventually(lambda: all(p["status"]["phase"] == "Running" for p in kube.api.items("/api/v1/pods")), 30)
    printed = kube.server.kubectl("get", "nodes,pods,pdb,pv,pvc", "-A", "-o", "json")
    path = tmp_path / "dump.json"
    path.write_text(printed.stdout)
    monkeypatch.setenv("KUBECONFIG", str(kube.kubeconfig))
    dumped, live = assessed(capsys, str(path)), assessed(capsys, "live")
    assert dumped == live
    assert (dumped["pods"], dumped["notes"]) == (4, [])


def test_a_large_cluster_is_looked_at_from_its_emptiest_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [node(f"n{number}", "ab"[number % 2], pool="") for number in range(400)]
    items += [seen_pod(f"web-{number}", f"n{number}") for number in range(400)]
    result = assessed(capsys, dump(tmp_path, items))
    assert len(result["removable"]) == 30
    assert "only the 300 emptiest of 400 workers were looked at" in result["notes"]
