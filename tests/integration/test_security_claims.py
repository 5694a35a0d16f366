"""What SECURITY.md and the threat model say: each claim names its test, and the test is there."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ebbtide import redact
from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.metrics_export import serving
from ebbtide.config.api import ApiKeys, TokenKeys
from ebbtide.config.document import Read
from ebbtide.config.load import build_config
from ebbtide.config.schema import Document
from ebbtide.entrypoints.api import events, guard
from ebbtide.entrypoints.api import serving as connections
from ebbtide.entrypoints.api.site import digest_of, reads_openly
from ebbtide.errors import ConfigError
from tests.e2e.shell import Shell, clean_environment

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = ("SECURITY.md", "docs/threat-model.md")
NAMED = re.compile(r"`([\w/]*(?:test_\w+(?:\.py)?|bench/\w+\.py))`")
TOKEN = TokenKeys(name="grafana", scope="read", sha256=digest_of("ebb_x"))


def test_every_test_that_the_pages_name_is_there() -> None:
    files = {path.name for path in (*(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").glob("*.py"))}
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    named = [name for page in PAGES for name in NAMED.findall((ROOT / page).read_text())]
    assert len(named) >= 40
    assert [name for name in named if name.rpartition("/")[2] not in files | defined] == []


def test_every_claim_of_security_names_a_test() -> None:
    table = (
        (ROOT / "SECURITY.md").read_text().partition("## What holds today")[2].partition("PostgreSQL is")[0]
    )
    rows = [
        line for line in table.splitlines() if line.startswith("| ") and not line.startswith(("| it", "| -"))
    ]
    assert len(rows) >= 15
    assert [row for row in rows if not NAMED.search(row)] == []


def test_every_attack_of_the_threat_model_names_a_test_of_its_defence() -> None:
    table = (ROOT / "docs/threat-model.md").read_text().partition("## Attacks and defences")[2]
    lines = table.partition("## Least privilege")[0].splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith(("| attacker", "| -"))]
    assert len(rows) >= 15
    assert [row for row in rows if not NAMED.search(row.rstrip("| ").rpartition("|")[2])] == []


def test_the_limits_that_the_pages_name_are_those_of_the_code() -> None:
    patience = connections.Patience()
    model, security = ((ROOT / page).read_text() for page in ("docs/threat-model.md", "SECURITY.md"))
    limits = (
        f"head ({patience.head_seconds:.0f} s), body ({patience.body_seconds:.0f} s), silence "
        f"({patience.idle_seconds} s) and unread answers ({patience.unread_seconds:.0f} s)"
    )
    for said in (
        limits,
        f"at most {guard.MOST_HELD >> 20} MiB together",
        f"{guard.MOST_HELD_EACH >> 20} MiB for each address",
        f"at most {events.MOST_LISTENERS} listeners",
        f"{connections.SHARE} of a core",
        f"has {serving.MOST_CONNECTIONS} connections",
        f"silent for {serving.IDLE_SECONDS:.0f} s in the middle",
        f"Secrets of fewer than {redact.SHORTEST} characters",
    ):
        assert said in model
    assert f"more than {connections.SHARE} of a core" in security
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connections.places() <= soft // 2


CHANGED = {
    "nodes": ("patching nodes", "deleting Node"),
    "pods/eviction": ("evicting pods",),
    "events": ("creating Events",),
    "secrets": ("deleting one kind of secret",),
    "deployments/scale": ("patching their scale subresource",),
    "statefulsets/scale": ("patching their scale subresource",),
    "sleeppolicies/status": ("patching their status",),
    "endpointslices": ("creating, patching and deleting EndpointSlices",),
}
"""What the threat model says of each resource that a manifest lets Ebbtide change."""


def test_the_threat_model_names_everything_that_the_manifests_let_us_change() -> None:
    roles = [
        role
        for file in (ROOT / "deploy/manifests").glob("*.yaml")
        for role in yaml.safe_load_all(file.read_text())
        if role
        and role["kind"] in ("Role", "ClusterRole")
        and not any(label.endswith("/aggregate-to-edit") for label in role["metadata"].get("labels", {}))
    ]
    changed = {
        resource
        for role in roles
        for rule in role["rules"]
        for resource in rule["resources"]
        if not {"get", "list", "watch"}.issuperset(rule["verbs"])
    }
    assert changed == CHANGED.keys()
    model = " ".join((ROOT / "docs/threat-model.md").read_text().partition("## Least privilege")[2].split())
    assert [said for each in CHANGED.values() for said in each if said not in model] == []


@pytest.mark.parametrize("address", ["0.0.0.0:8808", "[::]:8808", "10.0.0.1:8808", "example.org:8808"])
def test_nothing_listens_beyond_loopback_without_a_token(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigError, match=r"api\.tokens is empty"):
        build_config(Read(), {"API_LISTEN": address})
    refused = Shell(tmp_path).run("serve", "--listen", address, code=2)
    assert "api.tokens is empty" in refused.err


BINDS = """
import sys

bound = []
sys.addaudithook(lambda event, found: bound.append(found[1]) if event == "socket.bind" else None)
if sys.argv[1] == "once":
    from ebbtide.entrypoints.cli import main

    sys.argv = ["ebbtide", "once"]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
else:
    from ebbtide.entrypoints.aws_lambda import run
    from ebbtide.simulator.world.ports import SimCloud
    from tests.builders import make_pool
    from tests.servers import aws_events
    from tests.servers.stage import Stage
    from tests.unit.clouds.test_lambda_run import Context

    stage = Stage(make_pool())
    cloud = SimCloud(stage.world, stage.clock)
    event = aws_events.schedule(stage.clock.now())
    answer = run(event, Context(), lambda: (stage.ports(cloud), stage.settings))
    assert answer["held"] is True
assert bound == [], bound

import socket

with socket.create_server(("127.0.0.1", 0)):
    assert bound == [("127.0.0.1", 0)], "the check sees no bind at all"
"""
"""Fails at the first address that is bound."""


@pytest.mark.parametrize("way", ["once", "Lambda"])
def test_a_single_tick_and_the_function_listen_on_no_port(tmp_path: Path, way: str) -> None:
    environ = clean_environment({"PYTHONPATH": str(ROOT), "METRICS_ADDR": "127.0.0.1:0"})
    done = subprocess.run(
        [sys.executable, "-c", BINDS, way],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_listeners_have_the_addresses_that_the_page_names() -> None:
    page = (ROOT / "SECURITY.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith(("| the API", "| metrics"))]
    api, metrics = (row.split("|")[2].strip() for row in rows)
    manifest = (ROOT / "deploy/manifests/ebbtide.yaml").read_text()
    (chart,) = re.findall(r"name: METRICS_ADDR\n\s+value: \"(.+)\"", manifest)
    assert api == ApiKeys().listen == "off"
    assert metrics == f"`{Document().metrics_addr}`; the chart sets `{chart}`"


def test_reading_is_open_only_on_loopback_and_without_tokens() -> None:
    assert reads_openly(ApiKeys(), "127.0.0.1:1")
    assert reads_openly(ApiKeys(), "[::1]:1")
    assert not reads_openly(ApiKeys(tokens=(TOKEN,)), "127.0.0.1:1")
    assert not reads_openly(ApiKeys(), "0.0.0.0:1")
    assert not reads_openly(ApiKeys(open_reading=False), "127.0.0.1:1")


def test_a_token_is_kept_as_its_digest(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    made = yaml.safe_load(shell.run("token", "new", "--name", "grafana", "--json").out)
    assert made["entry"]["sha256"] == digest_of(made["token"])
    assert made["token"] not in str(made["entry"])
    assert shell.files() == []
    with pytest.raises(ValueError, match="sha256"):
        TokenKeys(name="grafana", scope="read", sha256=made["token"])


def test_a_kubeconfig_that_does_not_check_the_server_is_refused(tmp_path: Path) -> None:
    cluster = {"server": "https://127.0.0.1:6443", "insecure-skip-tls-verify": True}
    found = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "a token of somebody"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(found))
    with pytest.raises(ConfigError, match=r"insecure-skip-tls-verify.*nothing was touched"):
        connect(path)


@pytest.mark.parametrize(
    "words",
    [r"CERT_NONE", r"verify\s*=\s*False", r"check_hostname\s*=\s*False", r"_create_unverified_context"],
)
def test_no_code_turns_the_check_of_certificates_off(words: str) -> None:
    assert [path for path in SOURCES if re.search(words, path.read_text())] == []


def test_yaml_is_read_with_the_safe_loader_alone() -> None:
    unsafe = re.compile(
        r"yaml\.(unsafe_load|full_load|load_all|UnsafeLoader|FullLoader)\b|Loader=yaml\.Loader\b"
    )
    assert [path for path in SOURCES if unsafe.search(path.read_text())] == []
    for path in SOURCES:
        for call in re.findall(r"yaml\.load\(([^)]*)\)", path.read_text()):
            assert "Safe" in call, path


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-fuzz.lock"])
def test_every_library_is_pinned_by_version_and_hash(name: str) -> None:
    text = (ROOT / name).read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert lines
    assert [line for line in lines if "==" not in line or "--hash=sha256:" not in line] == []
    assert "--require-hashes" in (ROOT / "Makefile").read_text()
