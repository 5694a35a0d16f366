"""From a configuration to the ports of a real cluster, and what is said where they cannot be opened.

No network: the API server is a port of this machine on which nobody listens.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide import bootstrap
from ebbtide.adapters.clouds.aws import Ec2Cloud
from ebbtide.adapters.clouds.hetzner import HetznerCloud
from ebbtide.adapters.clouds.notices import HandedInbox, SqsInbox
from ebbtide.adapters.kube.cluster import KubeCluster
from ebbtide.adapters.kube.usage import MetricsServer
from ebbtide.adapters.prometheus import FirstKnown
from ebbtide.bootstrap.kubernetes import cloud_client
from ebbtide.config import Config, load
from ebbtide.config.document import Read
from ebbtide.config.load import build_config
from ebbtide.entrypoints.cli import main
from ebbtide.entrypoints.cli.running import check_distinct
from ebbtide.errors import ConfigError

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: "https://127.0.0.1:%d"}}]
users: [{name: me, user: {token: hunter2}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
"""
COMMON = """\
cluster: {name: shop, kind: kubernetes, kubeconfig: kubeconfig}
pools: [{name: a, types: [cpx22], zones: [z]}]
"""
AWS = COMMON + "cloud: {kind: aws}\naws: {image: ami-1, region: eu-central-1}\n"
HETZNER = COMMON + "cloud: {kind: hetzner}\nhetzner: {image: debian-12}\n"
JOIN = "join: {server_url: 'https://10.0.0.2:6443', token_command: cat /run/token}\n"
WITHOUT = """\
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None
from ebbtide.entrypoints.cli import main
main(sys.argv[2:])
"""
SIMULATED = """\
import sys
from ebbtide.entrypoints.cli import main
try:
    main(["once"])
except SystemExit:
    pass
heavy = ("boto3", "botocore", "hcloud", "urllib3", "ebbtide.adapters.kube")
print("imported:", [name for name in heavy if name in sys.modules])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    (tmp_path / "kubeconfig").write_text(KUBECONFIG % port)
    monkeypatch.chdir(tmp_path)
    for name, value in (
        ("HCLOUD_TOKEN", "hunter2"),
        ("AWS_ACCESS_KEY_ID", "testing"),
        ("AWS_SECRET_ACCESS_KEY", "testing"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ):
        monkeypatch.setenv(name, value)
    return tmp_path


def config(folder: Path, text: str) -> Config:
    (folder / "ebbtide.yaml").write_text(text)
    return load(None, {})


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int | str | None, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    told = capsys.readouterr()
    return caught.value.code, told.out, told.err


def test_aws_gets_ec2_sqs_and_prometheus_before_metrics_server(folder: Path) -> None:
    more = "metrics: {prometheus_url: 'http://127.0.0.1:9'}\n" + JOIN
    queue = AWS.replace("ami-1", "ami-1, queue_url: 'https://sqs.eu-central-1.amazonaws.com/1/q'")
    ports = bootstrap.build(config(folder, queue + more))
    try:
        assert isinstance(ports.cluster, KubeCluster)
        assert isinstance(ports.cloud, Ec2Cloud)
        assert isinstance(ports.metrics, FirstKnown)
        assert isinstance(ports.inbox, SqsInbox)
    finally:
        bootstrap.close_ports(ports)
        ports.store.close()


def test_hetzner_gets_its_cloud_an_empty_inbox_and_metrics_server(folder: Path) -> None:
    world = bootstrap.open_kubernetes(config(folder, HETZNER + JOIN), watching=True)
    try:
        assert isinstance(world.cloud, HetznerCloud)
        assert isinstance(world.metrics, MetricsServer)
        assert isinstance(world.inbox, HandedInbox)
        assert world.inbox.receive() == ()
    finally:
        bootstrap.close_ports(world)


@pytest.mark.parametrize("text", [AWS, HETZNER])
@pytest.mark.parametrize("command", ["plan", "once"])
def test_an_api_server_that_does_not_answer_is_one_message_and_nothing_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, text: str
) -> None:
    (folder / "ebbtide.yaml").write_text(text)
    before = files(folder)
    code, out, err = ended(capsys, command)
    assert (code, out) == (1, "")
    assert err.startswith("ebbtide: 127.0.0.1:")
    assert "cannot be reached" in err
    assert err.count("\n") == 2
    assert "hunter2" not in err
    assert files(folder) == before


def test_the_doctor_says_what_must_be_fixed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "ebbtide.yaml").write_text(
        HETZNER.replace("debian-12", "debian-12, endpoint: 'http://127.0.0.1:9'")
    )
    code, out, _ = ended(capsys, "doctor", "--json")
    cluster, cloud, store, prices = json.loads(out)
    assert code == 1
    assert not cluster["ok"]
    assert cluster["says"].startswith("the cluster does not answer")
    assert not cloud["ok"]
    assert cloud["says"].startswith("the cloud does not answer")
    assert (store["ok"], prices["ok"]) == (True, True)
    assert "is not there yet: the first run makes it" in store["says"]
    assert ended(capsys, "doctor")[1].count("wrong  the ") == 2


def test_the_status_of_a_real_cluster_asks_nobody(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "ebbtide.yaml").write_text(AWS)
    assert "shop  (kubernetes)\nNo record yet" in ended(capsys, "status")[1]


def test_a_kubeconfig_that_is_not_there_is_wrong_input(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "ebbtide.yaml").write_text(AWS.replace("kubeconfig: kubeconfig", "kubeconfig: absent"))
    before = files(folder)
    code, _, err = ended(capsys, "once")
    assert code == 2
    assert "absent" in err
    assert files(folder) == before


def test_the_hetzner_token_comes_from_the_environment_or_a_file_that_can_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HCLOUD_TOKEN")
    with pytest.raises(ConfigError, match=r"Set HCLOUD_TOKEN, or hetzner\.token_file"):
        cloud_client(config(folder, HETZNER))
    named = config(folder, HETZNER.replace("debian-12", "debian-12, token_file: token"))
    with pytest.raises(ConfigError, match="cannot be read from token"):
        cloud_client(named)
    (folder / "token").write_text("hunter2\n")
    assert cloud_client(named)._client._token == "hunter2"


@pytest.mark.parametrize(
    ("missing", "text", "extra"),
    [
        ("boto3", AWS, "aws"),
        ("hcloud", HETZNER, "hetzner"),
    ],
)
def test_a_missing_library_is_named_with_the_command_that_installs_it(
    folder: Path, missing: str, text: str, extra: str
) -> None:
    (folder / "ebbtide.yaml").write_text(text)
    done = _python(WITHOUT, missing, "plan")
    assert done.returncode == 2, done.stderr
    assert re.search(rf"install .*[\[,]{extra}[\],]", done.stderr)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("command", "keys"), [("serve", ""), ("run", "api: {listen: '127.0.0.1:0'}")])
def test_without_the_libraries_of_the_api_nothing_is_made_before_that_is_said(
    folder: Path, command: str, keys: str
) -> None:
    (folder / "ebbtide.yaml").write_text(f"cluster: {{name: shop}}\n{keys}\n")
    before = files(folder)
    done = _python(WITHOUT, "fastapi", command)
    assert done.returncode == 2, done.stderr
    assert "fastapi is not installed; nothing was touched" in done.stderr
    assert files(folder) == before


def test_a_simulated_cluster_imports_nothing_of_a_real_one(folder: Path) -> None:
    (folder / "ebbtide.yaml").write_text("cluster: {name: shop}")
    assert "imported: []" in _python(SIMULATED).stdout


def test_prices_are_asked_only_of_a_cloud(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "ebbtide.yaml").write_text("cluster: {name: shop}")
    code, _, err = ended(capsys, "prices", "update")
    assert (code, "no cloud is configured" in err) == (2, True)
    code, out, _ = ended(capsys, "prices", "show")
    assert code == 0
    assert "m7g.large" in out


def _python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_one_file_named_by_two_paths_is_one_store(tmp_path: Path) -> None:
    """Two loops of one process would have the same owner, and take each other's lease for their own."""
    (tmp_path / "link").symlink_to(tmp_path)
    configs = [
        build_config(Read(), {"STORE_URL": f"sqlite:///{tmp_path}/{way}"}) for way in ("a.db", "link/a.db")
    ]
    with pytest.raises(ConfigError, match="with the same store"):
        check_distinct(configs)
    check_distinct([configs[0], build_config(Read(), {"STORE_URL": f"sqlite:///{tmp_path}/b.db"})])
