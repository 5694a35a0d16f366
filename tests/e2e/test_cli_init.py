"""`ebbtide init` on three clusters: the file is valid, says what was found, and names what is missing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ebbtide.entrypoints.cli import main
from tests.dumps import DUMPS, VERSIONS, as_dump, k3s, node, place
from tests.e2e.shell import Shell

ROOT = Path(__file__).parents[2]
ACCESS = {
    "HCLOUD_TOKEN": "a" * 64,
    "HETZNER_ENDPOINT": "http://127.0.0.1:9",
    "AWS_ACCESS_KEY_ID": "",
    "AWS_EC2_METADATA_DISABLED": "true",
    "HOME": "/nonexistent",
}
"""Enough to be asked for nothing, and no way to reach anybody."""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def init(shell: Shell, name: str, *more: str) -> tuple[str, Any]:
    (shell.folder / "dump.json").write_bytes(DUMPS[name]())
    told = shell.run("init", "--dump", "dump.json", *more).out
    return told, yaml.safe_load((shell.folder / "ebbtide.yaml").read_text())


@pytest.mark.parametrize("name", DUMPS)
def test_the_file_passes_config_check_and_doctor_names_only_what_is_missing(shell: Shell, name: str) -> None:
    init(shell, name)
    assert "The configuration is valid" in shell.run("config", "check").out
    found = json.loads(shell.run("doctor", "--json", code=1, environ=ACCESS).out)
    wrong = [one["says"] for one in found if not one["ok"]]
    expected = {
        "k3s": [
            r"hetzner\.image is still to be filled in",
            "no cluster found",
            "the cloud does not answer",
        ],
        "eks": ["no cluster found", "the cloud does not answer", r"unknown: c7g\.xlarge, x9z\.huge"],
        "kubeadm": [
            r"join\.ca_cert_hash is still to be filled in",
            r"aws\.image is still to be filled in",
            "no cluster found",
            "the cloud does not answer",
        ],
    }[name]
    assert len(wrong) == len(expected), wrong
    for says, pattern in zip(wrong, expected, strict=True):
        assert re.search(pattern, says)


def test_k3s_on_hetzner_joins_the_server_that_is_there_at_its_version_in_its_locations(shell: Shell) -> None:
    _, written = init(shell, "k3s", "--name", "shop", "--image", "12345")
    assert written["cluster"] == {"name": "shop", "kind": "kubernetes"}
    assert written["cloud"] == {"kind": "hetzner"}
    assert written["join"] == {"server_url": "https://10.0.0.2:6443", "k3s_version": VERSIONS["k3s"]}
    assert written["pools"] == [{"name": "workers", "types": ["cpx32", "cpx42"], "zones": ["fsn1", "nbg1"]}]
    assert (written["min_workers"], written["max_workers"], written["profile"]) == (2, 6, "balanced")


def test_node_groups_of_eks_become_pools_with_market_labels_taints_and_a_type_that_nobody_knows(
    shell: Shell,
) -> None:
    _, written = init(shell, "eks")
    batch, general = written["pools"]
    assert written["cluster"]["name"] == "shop"
    assert written["aws"] == {"region": "eu-central-1", "launch_template": "lt-0123456789abcdef0:4"}
    assert general == {"name": "general", "types": ["m7i.large"], "zones": ["eu-central-1a", "eu-central-1b"]}
    assert (batch["name"], batch["market"], batch["labels"]) == ("batch-spot", "spot", {"team": "data"})
    assert batch["taints"] == [{"key": "workload", "value": "batch", "effect": "NoSchedule"}]
    assert batch["types"][1] == {"name": "x9z.huge", "cpu": "3920m", "memory": "7371Mi", "pods": 58}
    assert "Node group batch is managed" in (shell.folder / "ebbtide.yaml").read_text()


def test_a_taint_that_passes_makes_no_pool_of_its_own(shell: Shell) -> None:
    _, written = init(shell, "kubeadm")
    assert [pool["name"] for pool in written["pools"]] == ["workers"]
    assert written["aws"]["region"] == "eu-west-1"


def test_each_kind_of_cluster_gets_the_join_of_its_kind(shell: Shell) -> None:
    _, written = init(shell, "kubeadm", "--name", "shop")
    assert written["join"] == {
        "kind": "kubeadm",
        "server_url": "https://172.16.0.2:6443",
        "ca_cert_hash": "fill-me-in",
        "token_parameter": "/shop/join-token",
    }
    _, written = init(shell, "eks", "--force")
    assert "join" not in written, "its launch template joins"
    _, written = init(shell, "eks", "--force", "--image", "ami-0a")
    assert (written["join"]["kind"], written["join"]["service_cidr"]) == ("eks", "fill-me-in")
    version = "v1.34.1+rke2r1"
    server = {"node-role.kubernetes.io/control-plane": "true", **place("cpx22", "fsn1", "fsn1")}
    nodes = [
        node("server-1", version, server, "hcloud://1", "10.0.0.2"),
        node("agent-1", version, place("cpx32", "fsn1", "fsn1"), "hcloud://2"),
    ]
    (shell.folder / "rke2.json").write_bytes(as_dump(nodes))
    shell.run("init", "--dump", "rke2.json", "--force")
    written = yaml.safe_load((shell.folder / "ebbtide.yaml").read_text())
    assert written["join"] == {"kind": "rke2", "server_url": "https://10.0.0.2:9345", "version": version}
    assert "The configuration is valid" in shell.run("config", "check").out


def test_the_rights_it_writes_are_those_of_the_manifests(shell: Shell) -> None:
    init(shell, "k3s")

    def allowed(path: Path) -> set[tuple[str, str, str]]:
        roles = [one for one in yaml.safe_load_all(path.read_text()) if one and one["kind"] == "ClusterRole"]
        return {
            (group, resource, verb)
            for role in roles
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    assert allowed(shell.folder / "ebbtide-rbac.yaml") == allowed(ROOT / "deploy/manifests/rbac.yaml")


def test_nothing_acts_with_a_key_that_is_still_to_be_filled_in(shell: Shell) -> None:
    told, _ = init(shell, "k3s")
    assert '! to be filled in, line 20: image: "fill-me-in"' in told
    before = shell.contents()
    refused = shell.run("once", code=2, environ=ACCESS).err
    assert "hetzner.image is still to be filled in" in refused
    assert "nothing was touched" in refused
    assert shell.contents() == before


def test_a_file_that_is_there_is_not_replaced_unless_that_is_asked_for(shell: Shell) -> None:
    init(shell, "k3s", "--name", "first")
    before = shell.contents()
    refused = shell.run("init", "--dump", "dump.json", "--name", "second", code=2).err
    assert "ebbtide.yaml and ebbtide-rbac.yaml exist already; nothing was written" in refused
    assert shell.contents() == before
    shell.run("init", "--dump", "dump.json", "--name", "second", "--force")
    assert "name: second" in (shell.folder / "ebbtide.yaml").read_text()


def nameless() -> bytes:
    """K3s without a cloud controller: its nodes say neither cloud nor zone nor type."""
    return as_dump([node("agent-1", VERSIONS["k3s"], provider="k3s://agent-1")])


def only_servers() -> bytes:
    return as_dump(
        [node("s-1", VERSIONS["k3s"], {"node-role.kubernetes.io/control-plane": "true"}, "hcloud://1")]
    )


def placed() -> bytes:
    return as_dump([node("agent-1", VERSIONS["k3s"], place("cpx32", "fsn1", "fsn1"))])


@pytest.mark.parametrize(
    ("body", "arguments", "says"),
    [
        (b"", [], "no JSON that can be read"),
        (b'{"kind": "List", "items": []}', [], "holds no node"),
        (k3s()[:400], [], "it is cut off"),
        (nameless(), [], "no node says which cloud it is in"),
        (nameless(), ["--cloud", "hetzner"], "agent-1 does not say a zone or an instance type"),
        (placed(), [], "Add --cloud aws or --cloud hetzner"),
        (only_servers(), [], "are control-plane or system nodes"),
        (k3s(), ["--cloud", "aws"], "the provider ids of the nodes say hetzner"),
        (k3s(), ["--cloud", "gcp"], "'gcp' is not"),
        (k3s(), ["--name", "no spaces"], "--name 'no spaces' is not allowed"),
        (k3s(), ["--min", "9", "--max", "3"], "9 is above max_workers (3)"),
        (k3s(), ["--store", "redis://"], "is not a known store"),
        (k3s(), ["--out", "nowhere/ebbtide.yaml"], "there is no folder nowhere"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_input_writes_nothing_and_says_what_to_do(
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    body: bytes,
    arguments: list[str],
    says: str,
) -> None:
    (shell.folder / "dump.json").write_bytes(body)
    monkeypatch.chdir(shell.folder)
    with pytest.raises(SystemExit) as ended:
        main(["init", "--dump", "dump.json", *arguments])
    assert ended.value.code == 2
    assert says in " ".join(capsys.readouterr().err.split())
    assert shell.files() == ["dump.json"]


def test_a_dump_that_is_not_there_and_a_cluster_that_is_not_there_write_nothing(shell: Shell) -> None:
    told = shell.run("init", "--dump", "missing.json", code=2).err
    assert (
        "missing.json: No such file or directory; nothing was written. Make the dump with: kubectl get"
        in told
    )
    told = shell.run("init", "--kubeconfig", "missing", code=2).err
    assert "no cluster found in missing" in told
    assert shell.files() == []


@pytest.mark.parametrize("name", ["9", "on", "2026-01-01", "1e3"])
def test_a_name_that_looks_like_a_number_stays_a_name(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (shell.folder / "dump.json").write_bytes(k3s())
    monkeypatch.chdir(shell.folder)
    main_ended(["init", "--dump", "dump.json", "--name", name])
    assert yaml.safe_load((shell.folder / "ebbtide.yaml").read_text())["cluster"]["name"] == name


def main_ended(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code


def test_without_a_kubeconfig_it_says_how_to_look_at_a_dump(shell: Shell) -> None:
    told = shell.run("init", code=2, environ={"HOME": str(shell.folder), "KUBECONFIG": ""}).err
    assert "there is no kubeconfig; nothing was touched" in told
    assert "kubectl get nodes,pods,pdb,pv,pvc -A -o json | ebbtide init --dump -" in told
    assert shell.files() == []


def test_without_questions_a_minimum_above_the_default_maximum_raises_it(shell: Shell) -> None:
    (shell.folder / "dump.json").write_bytes(placed())
    shell.run("init", "--dump", "dump.json", "--cloud", "hetzner", "--min", "9")
    assert yaml.safe_load((shell.folder / "ebbtide.yaml").read_text())["max_workers"] == 9
