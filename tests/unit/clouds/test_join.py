"""The script that joins a machine: run for real, with stand-ins for what it calls."""

from __future__ import annotations

import stat
import subprocess
from dataclasses import replace
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from ebbtide.adapters.clouds.joins import Join, JoinKind, Metadata, ec2_metadata, hetzner_metadata, user_data
from ebbtide.core.join_template import problems_with
from ebbtide.errors import ConfigError, Final
from ebbtide.model.operation import Slot
from ebbtide.model.pod import Taint, TaintEffect
from ebbtide.model.pool import Pool
from ebbtide.model.snapshot import Market
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
  *get.rke2.io*) printf 'echo "rke2 $INSTALL_RKE2_VERSION $INSTALL_RKE2_TYPE" > "$TEST_FOLDER/installed"' ;;
  *) exit 22 ;;
esac
"""
AWS = f"""#!/bin/sh
echo "$*" > "$TEST_FOLDER/asked"
printf '{TOKEN}'
"""


NOTED = """#!/bin/sh
echo "$(basename "$0") $*" >> "$TEST_FOLDER/run"
"""


def run(script: str, folder: Path, instance_id: str, written: str = "k3s/config.yaml") -> dict[str, Any]:
    """The script for real, with stand-ins for what it calls; the YAML that it has written."""
    stands = (("curl", CURL), ("aws", AWS), ("systemctl", NOTED), ("kubeadm", NOTED))
    for name, content in stands:
        (folder / name).write_text(content)
        (folder / name).chmod(0o755)
    environment = {
        "PATH": f"{folder}:/usr/bin:/bin",
        "TEST_FOLDER": str(folder),
        "TEST_INSTANCE_ID": instance_id,
        "K3S_CONFIG_FOLDER": str(folder / "k3s"),
        "RKE2_CONFIG_FOLDER": str(folder / "rke2"),
        "KUBEADM_JOIN_FILE": str(folder / "joining/join.yaml"),
    }
    subprocess.run(["/bin/bash"], input=script, text=True, env=environment, check=True, timeout=30)
    found: dict[str, Any] = yaml.safe_load((folder / written).read_text())
    return found


def test_a_machine_of_ec2_joins_with_its_labels_its_taints_and_its_provider_id(tmp_path: Path) -> None:
    script = user_data(JOIN, ec2_metadata(SLOT.zone, JOIN), SLOT, [POOL])
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
    run(user_data(JOIN, ec2_metadata(SLOT.zone, JOIN), SLOT, [POOL]), tmp_path, "i-0abc")
    assert stat.S_IMODE((tmp_path / "k3s/config.yaml").stat().st_mode) == 0o600


def test_a_machine_of_hetzner_joins_with_the_token_that_its_image_holds(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    join = Join("https://10.0.0.2:6443", token_command=f"cat {tmp_path / 'token'}")
    written = run(user_data(join, hetzner_metadata(join), SLOT, [POOL]), tmp_path, "4711")
    assert written["token"] == TOKEN
    assert written["kubelet-arg"] == ["provider-id=hcloud://4711"]


def test_a_machine_that_cannot_get_its_token_does_not_join(tmp_path: Path) -> None:
    join = Join("https://10.0.0.2:6443", token_command="false")
    with pytest.raises(subprocess.CalledProcessError):
        run(user_data(join, hetzner_metadata(join), SLOT, [POOL]), tmp_path, "4711")
    assert not (tmp_path / "installed").exists()


def test_the_script_has_no_secret_in_it_and_is_always_the_same() -> None:
    metadata: Metadata = ec2_metadata(SLOT.zone, JOIN)
    script = user_data(JOIN, metadata, SLOT, [POOL])
    assert TOKEN not in script
    assert script == user_data(JOIN, metadata, replace(SLOT, reason="tried before", since=9), [POOL])
    assert len(script) < 16 * 1024


def test_ec2_needs_to_know_where_the_token_is() -> None:
    with pytest.raises(ConfigError, match="token_parameter"):
        ec2_metadata("eu-central-1a", Join("https://10.0.0.2:6443"))


def test_a_slot_of_an_unknown_pool_gets_no_script() -> None:
    with pytest.raises(Final, match="not configured"):
        user_data(JOIN, hetzner_metadata(JOIN), SLOT, [])


RKE2 = Join("https://10.0.0.2:9345", JoinKind.RKE2, token_secret="shop/join", version="v1.34.1+rke2r1")
KUBEADM = Join(
    "https://10.0.0.2:6443",
    JoinKind.KUBEADM,
    token_parameter="/shop/token",
    ca_cert_hash=f"sha256:{'0a' * 32}",
)
EKS = Join(
    "https://ABC.gr7.eu-central-1.eks.amazonaws.com",
    JoinKind.EKS,
    cluster_name="shop",
    ca_certificate="Y2VydA==",
    service_cidr="10.100.0.0/16",
)
CUSTOM = Join(
    "https://10.0.0.2:6443",
    JoinKind.CUSTOM,
    token_file="/etc/my token",
)


def ec2(join: Join, pool: Pool = POOL) -> str:
    return user_data(join, ec2_metadata(SLOT.zone, join), SLOT, [pool])


def test_a_machine_joins_rke2_with_a_token_of_secrets_manager(tmp_path: Path) -> None:
    written = run(ec2(RKE2), tmp_path, "i-0abc", "rke2/config.yaml")
    assert (written["server"], written["token"]) == ("https://10.0.0.2:9345", TOKEN)
    assert written["kubelet-arg"] == ["provider-id=aws:///eu-central-1a/i-0abc"]
    assert "ebbtide.dev/instance-id=i-0abc" in written["node-label"]
    assert (tmp_path / "installed").read_text().strip() == "rke2 v1.34.1+rke2r1 agent"
    assert (tmp_path / "run").read_text().strip() == "systemctl enable --now rke2-agent.service"
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith("secretsmanager get-secret-value")
    assert "--secret-id shop/join" in asked


def test_a_machine_joins_with_kubeadm_and_knows_the_authority_of_its_cluster(tmp_path: Path) -> None:
    written = run(ec2(KUBEADM), tmp_path, "i-0abc", "joining/join.yaml")
    assert (written["apiVersion"], written["kind"]) == ("kubeadm.k8s.io/v1beta4", "JoinConfiguration")
    assert written["discovery"]["bootstrapToken"] == {
        "apiServerEndpoint": "10.0.0.2:6443",
        "caCertHashes": [f"sha256:{'0a' * 32}"],
        "token": TOKEN,
    }
    registration = written["nodeRegistration"]
    assert registration["taints"] == [{"key": "workload", "value": "batch", "effect": "NoSchedule"}]
    arguments = {each["name"]: each["value"] for each in registration["kubeletExtraArgs"]}
    assert arguments["provider-id"] == "aws:///eu-central-1a/i-0abc"
    labels = dict(label.split("=", 1) for label in arguments["node-labels"].split(","))
    assert (labels["ebbtide.dev/instance-id"], labels["ebbtide.dev/pool"]) == ("i-0abc", "batch")
    assert labels["note"] == 'a "quoted" $(touch /tmp/never) `x`'
    assert (tmp_path / "run").read_text().strip() == f"kubeadm join --config {tmp_path}/joining/join.yaml"
    assert stat.S_IMODE((tmp_path / "joining/join.yaml").stat().st_mode) == 0o600


def test_kubeadm_is_told_a_port_also_where_the_url_has_none_and_what_to_run_first(tmp_path: Path) -> None:
    join = replace(KUBEADM, server_url="https://api.example.org", install_command="curl get.k3s.io | sh")
    written = run(ec2(join, make_pool("batch")), tmp_path, "i-1", "joining/join.yaml")
    assert written["discovery"]["bootstrapToken"]["apiServerEndpoint"] == "api.example.org:443"
    assert written["nodeRegistration"]["taints"] == []
    assert (tmp_path / "installed").exists()


class Nodeadm:
    """The part of nodeadm's NodeConfig (node.eks.aws/v1alpha1) that is written, strictly: its API reference
    has these fields, of these kinds, and a field that it does not have ends the boot."""

    class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
        pass

    class Cluster(Strict):
        name: str
        api_server_endpoint: str
        certificate_authority: bytes
        cidr: str

    class WireTaint(Strict):
        key: str
        value: str
        effect: str

    class KubeletConfig(Strict):
        register_with_taints: list[Nodeadm.WireTaint]

    class Kubelet(Strict):
        flags: list[str]
        config: Nodeadm.KubeletConfig | None = None

    class Spec(Strict):
        cluster: Nodeadm.Cluster
        kubelet: Nodeadm.Kubelet

    class NodeConfig(Strict):
        api_version: str
        kind: str
        spec: Nodeadm.Spec


def node_config_in(text: str) -> Nodeadm.NodeConfig:
    message = message_from_string(text)
    assert message.get_content_type() == "multipart/mixed"
    parts = message.get_payload()
    assert isinstance(parts, list)
    (part,) = parts
    assert isinstance(part, Message)
    assert part.get_content_type() == "application/node.eks.aws"
    return msgspec.convert(yaml.safe_load(str(part.get_payload())), Nodeadm.NodeConfig)


def test_a_node_of_eks_gets_a_config_for_nodeadm_and_no_token() -> None:
    found = node_config_in(ec2(EKS))
    assert (found.api_version, found.kind) == ("node.eks.aws/v1alpha1", "NodeConfig")
    cluster = found.spec.cluster
    assert (cluster.name, cluster.certificate_authority, cluster.cidr) == ("shop", b"cert", "10.100.0.0/16")
    (flag,) = found.spec.kubelet.flags
    assert flag.startswith("--node-labels=team=data,")
    assert "ebbtide.dev/pool=batch" in flag
    assert found.spec.kubelet.config is not None
    assert found.spec.kubelet.config.register_with_taints[0].key == "workload"
    assert node_config_in(ec2(EKS, make_pool("batch"))).spec.kubelet.config is None
    assert "token" not in ec2(EKS)


def test_a_template_of_ones_own_is_filled_in_and_quoted_as_it_asks() -> None:
    template = """\
#!/bin/bash
{{ read_instance_id }}
labels={{ labels | sh }}; taints={{taints}}; json={{ pool | json }}; keep=${HOME} {{server_url}} {{version}}
token=$({{ token_command }})
{{ zone }} {{ instance_type }} {{ market }} {{ provider_prefix }}
"""
    join = replace(CUSTOM, template=template, version="1.2")
    text = user_data(join, hetzner_metadata(join), SLOT, [POOL])
    assert "metadata/instance-id" in text
    assert "token=$(cat '/etc/my token')" in text
    assert 'json="batch"; keep=${HOME} https://10.0.0.2:6443 1.2' in text
    assert "taints=workload=batch:NoSchedule;" in text
    assert "eu-central-1a m7i.large spot hcloud://" in text
    (line,) = [each for each in text.splitlines() if each.startswith("labels=")]
    shown = subprocess.run(
        ["/bin/bash", "-c", f'{line.partition(";")[0]}; printf %s "$labels"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert 'note=a "quoted" $(touch /tmp/never) `x`,' in shown.stdout


def test_what_a_template_names_that_is_not_known_is_said() -> None:
    assert list(problems_with("{{ pool }} ${x} { { } } {{labels|sh}}")) == []
    (unknown,) = problems_with("{{ pol }}")
    assert unknown.startswith("{{ pol }} is not known; known are pool, zone")
    (quoting,) = problems_with("{{ pool | upper }}")
    assert quoting == "{{ pool | upper }} is not known; known are sh and json"


@pytest.mark.parametrize("join", [JOIN, RKE2, KUBEADM], ids=lambda join: str(join.kind))
def test_scripts_are_shell_that_bash_can_read_and_small_enough_for_every_cloud(join: Join) -> None:
    script = ec2(join)
    subprocess.run(["/bin/bash", "-n"], input=script, text=True, check=True)
    assert script.startswith("#!/bin/bash\n"), "cloud-init runs what begins like this"
    assert len(script) < 16 * 1024


def test_hetzner_reads_the_token_of_its_image_and_ec2_a_file_where_one_is_named() -> None:
    assert hetzner_metadata(Join("https://h")).token_command == "cat /etc/ebbtide/join-token"
    assert ec2_metadata("a", Join("https://h", token_file="/x y")).token_command == "cat '/x y'"
    assert ec2_metadata("a", EKS).token_command == ""
