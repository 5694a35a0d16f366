"""The script that joins a machine: run for real, with stand-ins for what it calls."""

from __future__ import annotations

import stat
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ebbtide.adapters.clouds.join import Join, Metadata, ec2_metadata, hetzner_metadata, join_script
from ebbtide.errors import ConfigError, Final
from ebbtide.model.node import Market
from ebbtide.model.operation import Slot
from ebbtide.model.scheduling import Taint, TaintEffect
from tests.builders import make_pool

SLOT = Slot("op-0", "batch", "eu-central-1a", "m7i.large", Market.SPOT)
POOL = make_pool(
    "batch",
    labels=(("team", "data"), ("note", 'a "quoted" $(touch /tmp/never) `x`')),
    taints=(Taint("workload", TaintEffect.NO_SCHEDULE, "batch"),),
)
JOIN = Join("https://10.0.0.2:6443", token_parameter="/shop/token", k3s_version="v1.31.4+k3s1")
TOKEN = "K10abc::server:secret"
CURL = """#!/bin/sh
case "$*" in
  *api/token*) printf session ;;
  *instance-id*) printf %s "$TEST_INSTANCE_ID" ;;
  *placement/region*) printf eu-central-1 ;;
  *get.k3s.io*) printf 'echo "installed $INSTALL_K3S_VERSION $*" > "$TEST_FOLDER/installed"' ;;
  *) exit 22 ;;
esac
"""
AWS = f"""#!/bin/sh
echo "$*" > "$TEST_FOLDER/asked"
printf '{TOKEN}'
"""


def run(script: str, folder: Path, instance_id: str) -> dict[str, Any]:
    for name, content in (("curl", CURL), ("aws", AWS)):
        (folder / name).write_text(content)
        (folder / name).chmod(0o755)
    environment = {
        "PATH": f"{folder}:/usr/bin:/bin",
        "TEST_FOLDER": str(folder),
        "TEST_INSTANCE_ID": instance_id,
        "K3S_CONFIG_FOLDER": str(folder / "k3s"),
    }
    subprocess.run(["/bin/bash"], input=script, text=True, env=environment, check=True, timeout=30)
    written: dict[str, Any] = yaml.safe_load((folder / "k3s/config.yaml").read_text())
    return written


def test_a_machine_of_ec2_joins_with_its_labels_its_taints_and_its_provider_id(tmp_path: Path) -> None:
    script = join_script(JOIN, ec2_metadata(SLOT.zone, JOIN), SLOT, [POOL])
    written = run(script, tmp_path, "i-0abc")
    assert written["server"] == "https://10.0.0.2:6443"
    assert written["token"] == TOKEN
    assert written["kubelet-arg"] == ["provider-id=aws:///eu-central-1a/i-0abc"]
    assert written["node-taint"] == ["workload=batch:NoSchedule"]
    labels = dict(label.split("=", 1) for label in written["node-label"])
    assert labels["ebbtide.dev/instance-id"] == "i-0abc"
    assert labels["ebbtide.dev/pool"] == "batch"
    assert labels["topology.kubernetes.io/zone"] == "eu-central-1a"
    assert labels["note"] == 'a "quoted" $(touch /tmp/never) `x`'
    assert "installed v1.31.4+k3s1 agent" in (tmp_path / "installed").read_text()
    assert "--name /shop/token" in (tmp_path / "asked").read_text()


def test_only_root_can_read_what_the_script_wrote(tmp_path: Path) -> None:
    run(join_script(JOIN, ec2_metadata(SLOT.zone, JOIN), SLOT, [POOL]), tmp_path, "i-0abc")
    assert stat.S_IMODE((tmp_path / "k3s/config.yaml").stat().st_mode) == 0o600


def test_a_machine_of_hetzner_joins_with_the_token_that_its_image_holds(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    join = Join("https://10.0.0.2:6443", token_command=f"cat {tmp_path / 'token'}")
    written = run(join_script(join, hetzner_metadata(join), SLOT, [POOL]), tmp_path, "4711")
    assert written["token"] == TOKEN
    assert written["kubelet-arg"] == ["provider-id=hcloud://4711"]


def test_a_machine_that_cannot_get_its_token_does_not_join(tmp_path: Path) -> None:
    join = Join("https://10.0.0.2:6443", token_command="false")
    with pytest.raises(subprocess.CalledProcessError):
        run(join_script(join, hetzner_metadata(join), SLOT, [POOL]), tmp_path, "4711")
    assert not (tmp_path / "installed").exists()


def test_the_script_has_no_secret_in_it_and_is_always_the_same() -> None:
    metadata: Metadata = ec2_metadata(SLOT.zone, JOIN)
    script = join_script(JOIN, metadata, SLOT, [POOL])
    assert TOKEN not in script
    assert script == join_script(JOIN, metadata, replace(SLOT, reason="tried before", since=9), [POOL])
    assert len(script) < 16 * 1024


def test_ec2_needs_to_know_where_the_token_is() -> None:
    with pytest.raises(ConfigError, match="token_parameter"):
        ec2_metadata("eu-central-1a", Join("https://10.0.0.2:6443"))


def test_a_slot_of_an_unknown_pool_gets_no_script() -> None:
    with pytest.raises(Final, match="not configured"):
        join_script(JOIN, hetzner_metadata(JOIN), SLOT, [])
