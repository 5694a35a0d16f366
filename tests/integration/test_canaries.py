"""No secret comes out anywhere: each has a value that is found nowhere else, every part refuses and quotes
what it was sent, and all that the program says, writes and shows is searched.

A secret counts as found in plain text, in base64 at any alignment and as in a URL.
"""

from __future__ import annotations

import base64
import json
import logging
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from ebbtide import bootstrap, redact
from ebbtide.adapters.clouds.notices import SqsInbox
from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.kube.events import Events, NodeTeller, Subject
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.bootstrap.kubernetes import cloud_client, open_cloud, open_prometheus
from ebbtide.config import load
from ebbtide.engine.loop import guarded_tick
from ebbtide.engine.ports import Ports
from ebbtide.entrypoints.api.site import Scope, Token, digest_of
from ebbtide.entrypoints.cli import main
from ebbtide.model.effect import Launch
from ebbtide.model.operation import Slot
from ebbtide.simulator.run.live import Live
from tests.builders import make_pool, make_type
from tests.integration.api.conftest import START, client_of, make_site
from tests.integration.api.test_scopes import CALLS
from tests.servers.clouds import Ec2Bench
from tests.servers.moto import shared_moto
from tests.servers.parrot import Parrot, parrot
from tests.servers.stage import Stage

API_TOKEN = "ebb_canary-api-token-7Qx"
CANARIES = {
    "kube": "canary-kube-token-1aZ/9",
    "prometheus": "canary-prometheus-token-2bY+8",
    "prometheus url": "canary-prometheus-password-3cX",
    "hetzner": "canary-hetzner-token-4dW",
    "aws": "canary/aws+secret-key-5eV",
    "aws session": "canary/aws+session-token-6fU==",
    "store": "canary-store-password-7gT",
    "webhook": "whsec_Y2FuYXJ5LXdlYmhvb2stc2VjcmV0LTho",
    "notify url": "canary-notify-password-9iR",
    "join": "K10canary-join-token-0jQ",
    "api": API_TOKEN,
}
POOLS = "pools: [{name: general, types: [TYPE], zones: [ZONE]}]\n"
CLOUDS = {
    "aws": (
        "cloud: {kind: aws}\naws: {region: eu-central-1, image: ami-1, endpoint: 'URL', "
        "queue_url: 'URL/q'}\n" + POOLS.replace("TYPE", "m7i.large").replace("ZONE", "eu-central-1a")
    ),
    "hetzner": (
        "cloud: {kind: hetzner}\nhetzner: {image: k3s, endpoint: 'URL/hetzner'}\n"
        + POOLS.replace("TYPE", "cpx32").replace("ZONE", "fsn1")
    ),
}
STORES = {
    "sqlite": "sqlite:///ebbtide.db",
    "postgresql": f"postgresql://ebbtide:{quote(CANARIES['store'])}@127.0.0.1:1/ebbtide",
    "dynamodb": "dynamodb://state/logs?region=eu-central-1&endpoint=URL",
}
COMMANDS = (
    *("config show", "config show --json", "config check", "status", "status --json", "log", "plan"),
    *("explain last", "once", "doctor", "doctor --json", "consolidate --dry-run", "wake web", "savings"),
    *("policy list", "prices show", "prices update", "report --html report.html", "db check", "db upgrade"),
    *("pause --reason upgrade", "resume", "status --debug", "once --debug", "prices update --debug"),
)


def found_in(text: str) -> list[str]:
    """The names of the secrets in it."""
    return [name for name, secret in CANARIES.items() if any(form in text for form in forms(secret))]


def forms(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret)
    yield quote(secret, safe="")
    for shift in range(3):
        coded = base64.b64encode(b"-" * shift + secret.encode()).decode()
        yield coded[(0, 2, 3)[shift] : -4]


@pytest.fixture
def echo() -> Iterator[Parrot]:
    with parrot() as found:
        yield found


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {
        "HCLOUD_TOKEN": CANARIES["hetzner"],
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": CANARIES["aws"],
        "AWS_SESSION_TOKEN": CANARIES["aws session"],
        "AWS_REGION": "eu-central-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_COLOR": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("boto3.DEFAULT_SESSION", None)  # it remembers the credentials of earlier tests


def configured(folder: Path, url: str, cloud: str, store: str = "sqlite") -> Path:
    """A whole configuration with a secret in every place that takes one."""
    cluster = {"name": "c", "cluster": {"server": url}}
    user = {"name": "u", "user": {"token": CANARIES["kube"]}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    whole = {"clusters": [cluster], "users": [user], "contexts": [context], "current-context": "x"}
    (folder / "kubeconfig").write_text(yaml.safe_dump(whole))
    (folder / "prometheus-token").write_text(CANARIES["prometheus"] + "\n")
    (folder / "webhook-secrets").write_text(CANARIES["webhook"] + "\n")
    with_password = url.replace("://", f"://someone:{CANARIES['prometheus url']}@")
    text = f"""\
cluster: {{name: shop, kind: kubernetes, kubeconfig: kubeconfig}}
join: {{server_url: "https://10.0.0.2:6443", token_command: "echo {CANARIES["join"]}"}}
metrics: {{prometheus_url: "{with_password}", token_file: prometheus-token}}
request_timeout_sec: 5
store: {{url: "{STORES[store].replace("URL", url)}"}}
api:
  listen: 127.0.0.1:0
  tokens: [{{name: ops, scope: admin, sha256: "{"ab" * 32}"}}]
  webhook_secrets_file: webhook-secrets
  notify_url: "http://us:{CANARIES["notify url"]}@127.0.0.1:1/hook?token={CANARIES["notify url"]}"
{CLOUDS[cloud].replace("URL", url)}"""
    path = folder / "ebbtide.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("cloud", "store"),
    [("aws", "sqlite"), ("hetzner", "sqlite"), ("hetzner", "postgresql"), ("aws", "dynamodb")],
)
def test_no_command_says_a_secret_when_everything_refuses_and_quotes(
    cloud: str, store: str, echo: Parrot, tmp_path: Path, capfd: Any, monkeypatch: Any
) -> None:
    configured(tmp_path, echo.url, cloud, store)
    said = {}
    for command in COMMANDS:
        redact._known.clear()  # as in a process of its own
        with pytest.raises(SystemExit):
            main(command.split())
        out, err = capfd.readouterr()
        said[command] = out + err
    assert {command: names for command, text in said.items() if (names := found_in(text))} == {}
    assert "***" in said["config show"]
    assert all(said.values()), "each says something"
    assert f"Bearer {CANARIES['kube']}" in " ".join(echo.heard), "or nothing was put to the test"
    ours = {"kubeconfig", "prometheus-token", "webhook-secrets", "ebbtide.yaml"}
    for file in tmp_path.iterdir():
        assert file.name in ours or not found_in(file.read_bytes().decode("latin-1")), file.name


def failing(tmp_path: Path, echo: Parrot, cloud: str, stage: Stage) -> Ports:
    """A simulated cluster that wants nodes; cloud, metrics and queue are real adapters on the parrot."""
    config = load(configured(tmp_path, echo.url, cloud), {})
    ports = stage.ports(open_cloud(config))
    prometheus = open_prometheus(config)
    assert prometheus is not None
    notifier = bootstrap.open_notifier(config)
    connection = connect(tmp_path / "kubeconfig")
    teller = NodeTeller(Events(connection), dict)
    changes: dict[str, Any] = {"metrics": prometheus, "notifier": notifier, "observer": teller}
    if cloud == "aws":
        changes["inbox"] = SqsInbox(cloud_client(config, "sqs"), f"{echo.url}/q", stage.clock)
    Events(connection).send(Subject("Node", "w1", "u1"), "NotRemoved", "kept: needed")
    return replace(ports, **changes)


@pytest.mark.parametrize("cloud", ["aws", "hetzner"])
def test_ticks_of_which_every_part_fails_leave_no_secret_in_record_log_events_api_or_report(
    cloud: str, echo: Parrot, tmp_path: Path, capfd: Any, caplog: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("botocore").setLevel(logging.INFO)
    pool = make_pool("general", types=(make_type("m7i.large" if cloud == "aws" else "cpx32"),), zones=("a",))
    stage = Stage(pool, min_workers=2)
    stage.store = SqlStore.open("sqlite:///ebbtide.db", stage.clock, stage.settings.cluster)
    ports = failing(tmp_path, echo, cloud, stage)
    reports = []
    for number in range(6):
        stage.clock.sleep(60)
        reports.append(guarded_tick(ports, stage.settings, f"runner-{number}", 60).says)
    entries = stage.store.read_log(limit=500)
    assert any("***" in json.dumps(entry.data) + entry.says for entry in entries), "a refusal was quoted"
    assert found_in(" ".join(reports)) == []
    assert found_in(repr(entries) + repr(stage.store.load())) == []
    out, err = capfd.readouterr()
    assert found_in(out + err + caplog.text) == []
    assert echo.events
    assert found_in(" ".join(echo.events)) == []
    live = Live(1, START)
    with client_of(make_site(live, store=stage.store)) as client:
        for path in ("status", "decisions", "operations", "log", "alarms", "costs"):
            assert found_in(client.get(f"/api/v1/{path}").text) == []
    stage.store.close()
    with sqlite3.connect("ebbtide.db") as database:
        assert found_in("\n".join(database.iterdump())) == []
    for command in ("status", "log --limit 100", "explain last", "report --html report.html"):
        with pytest.raises(SystemExit):
            main(command.split())
    out, err = capfd.readouterr()
    assert found_in(out + err + Path("report.html").read_text()) == []


def test_no_route_gives_the_token_or_the_webhook_secret_away(monkeypatch: Any) -> None:
    live = Live(1, START)
    site = make_site(
        live,
        tokens=(Token("ops", Scope.ADMIN, digest_of(API_TOKEN)),),
        webhook_secrets=(CANARIES["webhook"],),
    )
    monkeypatch.setattr("ebbtide.entrypoints.api.events.MOST_LISTENERS", 0)  # the stream never ends
    with client_of(site) as client:
        client.headers["Authorization"] = f"Bearer {API_TOKEN}"
        for method, path in CALLS:
            for body in (None, {"wrong": [API_TOKEN[:3]]}):
                given = path.replace("{policy_id}", live.scaling.ports.policies.list_policies()[0].id)
                answer = client.request(method, given, json=body)
                assert found_in(f"{answer.headers} {answer.text}") == [], (method, path)


def test_the_user_data_of_a_new_machine_has_no_secret() -> None:
    """The join token stands in SSM; this process never asks for it."""
    parameter = {"Name": "/ebbtide/shop/join-token", "Value": CANARIES["join"], "Type": "SecureString"}
    shared_moto().client("ssm").put_parameter(**parameter, Overwrite=True)
    bench = Ec2Bench()
    try:
        slot = Slot("key-1", "general", "eu-central-1a", "m7i.large")
        made = bench.cloud.launch(Launch(slot, "op-1"))
        asked = {"InstanceId": made.id, "Attribute": "userData"}
        data = bench.ec2.describe_instance_attribute(**asked)["UserData"]["Value"]
        raw = bench.ec2.describe_instances(InstanceIds=[made.id])
    finally:
        bench.close()
    script = base64.b64decode(data).decode()
    assert "/ebbtide/shop/join-token" in script
    assert found_in(script + repr(raw)) == []
