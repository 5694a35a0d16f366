"""`ebbtide init` asks Hetzner what the workers were made from, by the real client; nothing is changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from ebbtide.adapters.clouds.hetzner import make_client
from ebbtide.adapters.clouds.looking import LaunchedWith, look_at_hetzner
from tests.dumps import as_dump, k3s, node, place
from tests.e2e.shell import Shell
from tests.servers.clouds import HetznerBench
from tests.servers.hetzner import TOKEN

IMAGE = {
    "id": 114690387,
    "name": "debian-12",
    "type": "system",
    "status": "available",
    "os_flavor": "debian",
}


@pytest.fixture
def worker(bench: HetznerBench) -> int:
    server = bench.server.make("agent-1", "fsn1", "cpx32", {})
    server["image"] = IMAGE
    server["public_net"] = {
        "ipv4": None,
        "ipv6": None,
        "floating_ips": [],
        "firewalls": [{"id": 38, "status": "applied"}],
    }
    return int(server["id"])


def test_image_networks_and_firewalls_are_those_of_a_worker(bench: HetznerBench, worker: int) -> None:
    client = make_client(TOKEN, bench.server.url)
    found = look_at_hetzner(client, {str(worker)})
    assert found == LaunchedWith(image="debian-12", networks=(1,), firewalls=(38,))
    assert look_at_hetzner(client, {"1"}) == LaunchedWith()
    assert set(bench.server.calls) == {"GET"}


def test_init_fills_in_what_the_cloud_says(bench: HetznerBench, worker: int, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    version = json.loads(k3s())["items"][0]["status"]["nodeInfo"]["kubeletVersion"]
    dump = as_dump([node("agent-1", version, place("cpx32", "fsn1-dc14", "fsn1"), f"hcloud://{worker}")])
    (tmp_path / "dump.json").write_bytes(dump)
    access = {"HCLOUD_TOKEN": TOKEN, "HETZNER_ENDPOINT": bench.server.url}
    told = shell.run("init", "--dump", "dump.json", environ=access).out
    assert "image, networks and groups are those of the workers, as the cloud says" in told
    written = yaml.safe_load((tmp_path / "ebbtide.yaml").read_text())
    assert written["hetzner"] == {"image": "debian-12", "networks": [1], "firewalls": [38]}
    wrong = shell.run(
        "init", "--dump", "dump.json", "--force", environ={**access, "HCLOUD_TOKEN": "another-token"}
    ).out
    assert "the cloud did not help" in wrong
    offline = shell.run("init", "--dump", "dump.json", "--force", "--offline", environ=access).out
    assert "the cloud" not in offline
    assert 'image: "fill-me-in"' in offline
