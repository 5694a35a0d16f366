"""What `ebbtide doctor` finds out about store, metrics, queue and prices, on real ones; and what to fix."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from ebbtide.adapters.kube.doctor import Finding
from ebbtide.adapters.stores.dynamodb.tables import create_tables
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.bootstrap import SystemClock
from ebbtide.config import Config
from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.entrypoints.doctor.command import sentences
from ebbtide.entrypoints.doctor.examine import (
    examine_metrics,
    examine_prices,
    examine_queue,
    examine_store,
    gated_services,
    refused,
    scales_workloads,
)
from ebbtide.errors import Final
from ebbtide.model.policy import ServiceRef, WakeOnRequest
from tests.policy_harness import make_policy
from tests.servers.dynamodb import CREDENTIALS, DynamoServer, dynamodb_server
from tests.servers.moto import CREDENTIALS as AWS_CREDENTIALS
from tests.servers.moto import REGION, shared_moto
from tests.servers.prometheus import http_server

TEXT = """\
cluster: {name: shop, kind: kubernetes}
cloud: {kind: aws}
aws: {image: ami-1, region: eu-central-1}
pools: [{name: a, types: [TYPE], zones: [z]}]
"""


def config_of(text: str = "", node_type: str = "m7i.large", store_url: str = "sqlite:///none.db") -> Config:
    document = parse_document(TEXT.replace("TYPE", node_type) + text, "ebbtide.yaml")
    return replace(build_config(document, {}), store_url=store_url)


def says(findings: Iterator[Finding]) -> list[tuple[bool, str]]:
    return [(finding.ok, finding.says) for finding in findings]


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[DynamoServer]:
    before = dict(os.environ)
    os.environ.update(CREDENTIALS)
    with dynamodb_server() as server:
        yield server
    os.environ.clear()
    os.environ.update(before)


def test_a_store_that_works_can_be_read_and_written_and_is_left_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "record.db"
    url = f"sqlite:///{file}"
    SqlStore.open(url, SystemClock(), "shop").close()
    before = file.read_bytes()
    schema, record = examine_store(config_of(store_url=url))
    assert (schema.ok, "is ready at schema" in schema.says) == (True, True)
    assert (record.ok, record.says) == (True, "the record can be read and may be written")
    assert file.read_bytes() == before


def test_rights_on_workloads_are_needed_where_the_configuration_or_the_store_has_policies(
    tmp_path: Path,
) -> None:
    named = "policies: [{name: web, target: {workloads: [{name: web}]}}]\n"
    pool = "policies: [{name: all, target: {pool: a}}]\n"
    assert scales_workloads(config_of(named))
    assert not scales_workloads(config_of(pool))
    url = f"sqlite:///{tmp_path / 'record.db'}"
    assert not scales_workloads(config_of(store_url=url))
    assert not (tmp_path / "record.db").exists(), "looking makes no file"
    store = SqlStore.open(url, SystemClock(), "shop")
    assert not scales_workloads(config_of(store_url=url))
    store.policies().put_policy(make_policy())
    store.close()
    assert scales_workloads(config_of(store_url=url))
    (tmp_path / "record.db").write_text("no database")
    assert not scales_workloads(config_of(store_url=url)), "said by the examination of the store"


def test_services_behind_a_gate_are_those_of_the_configuration_and_of_the_store(tmp_path: Path) -> None:
    gated = "{name: web, target: {workloads: [{name: web}]}, gate: {services: [{name: web}]}}"
    text = f"policies: [{gated}, {{name: plain, target: {{pool: a}}}}]\n"
    url = f"sqlite:///{tmp_path / 'record.db'}"
    web, shop = ServiceRef("default", "web"), ServiceRef("default", "shop")
    assert gated_services(config_of(text, store_url=url)) == {"web": (web,)}
    store = SqlStore.open(url, SystemClock(), "shop")
    store.policies().put_policy(make_policy("shop", gate=WakeOnRequest((shop,))))
    store.close()
    assert gated_services(config_of(text, store_url=url)) == {"shop": (shop,), "web": (web,)}


def test_a_store_that_is_not_there_yet_is_not_made_and_one_that_is_none_is_said(tmp_path: Path) -> None:
    file = tmp_path / "record.db"
    finding = next(examine_store(config_of(store_url=f"sqlite:///{file}")))
    assert (finding.ok, "the first run makes it" in finding.says) == (True, True)
    assert not file.exists()
    file.write_text("this is no database, and it is long enough to be looked at as one")
    (finding,) = examine_store(config_of(store_url=f"sqlite:///{file}"))
    assert not finding.ok
    assert "ebbtide db upgrade" in finding.fix


def test_tables_on_dynamodb_are_looked_at_and_missing_ones_named(dynamodb: DynamoServer) -> None:
    url = dynamodb.url("doctor-state", "doctor-logs")
    (missing,) = examine_store(config_of(store_url=url))
    assert not missing.ok
    assert "ebbtide db create" in missing.fix
    create_tables(url)
    assert [ok for ok, _ in says(examine_store(config_of(store_url=url)))] == [True, True]


def vector(*samples: str) -> str:
    result = ",".join(samples)
    return f'{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}}}'


def test_prometheus_is_asked_and_says_how_old_its_numbers_are() -> None:
    stamp = time.time() - 20
    own = "metrics: {prometheus_url: 'http://127.0.0.1:PORT', query: cpu}\n"
    with http_server(lambda path: (200, vector(f'{{"metric":{{}},"value":[{stamp},"0.2"]}}'))) as port:
        config = config_of(own.replace("PORT", str(port)))
        found = examine_metrics(config, ["w1", "w2"])
        assert found is not None
        assert found.ok
        assert "knows the CPU of all 2 workers, 2" in found.says
        found = examine_metrics(config, [])
        assert found is not None
        assert (found.ok, "answers" in found.says) == (True, True)
    found = examine_metrics(config, ["w1"])
    assert found is not None
    assert not found.ok
    assert "cannot be reached" in found.says
    assert "scrapes node-exporter" in found.fix
    assert examine_metrics(config_of(), ["w1"]) is None


def test_numbers_that_are_too_old_are_wrong() -> None:
    stamp = time.time() - 4000
    with http_server(lambda path: (200, vector(f'{{"metric":{{}},"value":[{stamp},"0.2"]}}'))) as port:
        own = f"metrics: {{prometheus_url: 'http://127.0.0.1:{port}', query: cpu}}\n"
        found = examine_metrics(config_of(own), ["w1"])
    assert found is not None
    assert not found.ok
    assert "1 h 6 min old, more than" in found.says


def test_a_queue_is_asked_about_itself_and_none_of_its_messages_is_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in AWS_CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    moto = shared_moto()
    sqs = moto.client("sqs")
    url = sqs.create_queue(QueueName=f"doctor-{time.time_ns()}")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="{}")

    def queue(queue_url: str) -> Config:
        keys = f'{{image: ami-1, region: {REGION}, endpoint: "{moto.url}", queue_url: "{queue_url}"}}'
        text = TEXT.replace("{image: ami-1, region: eu-central-1}", keys).replace("TYPE", "m7i.large")
        return build_config(parse_document(text, "ebbtide.yaml"), {})

    found = examine_queue(queue(url))
    assert found is not None
    assert (found.ok, found.says) == (True, "the queue of spot notices answers, 1 messages wait")
    assert len(sqs.receive_message(QueueUrl=url)["Messages"]) == 1
    found = examine_queue(queue(f"{url}-gone"))
    assert found is not None
    assert not found.ok
    assert "aws.queue_url" in found.fix
    assert examine_queue(config_of()) is None


def test_types_without_a_price_and_old_prices_are_wrong(tmp_path: Path) -> None:
    assert [ok for ok, _ in says(examine_prices(config_of()))] == [True]
    own = "{name: own.large, cpu: 2, memory: 4096Mi, pods: 50}"
    (unknown,) = examine_prices(config_of(node_type=own))
    assert (unknown.ok, "unknown: own.large" in unknown.says) == (False, True)
    assert "ebbtide prices update" in unknown.fix
    file = tmp_path / "prices.yaml"
    file.write_text("currency: USD\nas_of: 2026-01-01\nprices: {m7i.large: 0.1}\n")
    config = config_of(f"prices: {{file: {file}}}\n")
    late = date(2026, 1, 1) + timedelta(days=90)
    assert [ok for ok, _ in says(examine_prices(config, lambda: late))] == [True, False]


def test_a_finding_names_one_next_step() -> None:
    """That of the error where it has one: it is more exact than ours."""
    error = Final("listing: refused (unauthorized).", step="check HCLOUD_TOKEN")
    found = refused("the cloud does not answer", error, "check the access to hetzner")
    assert found.fix == "check HCLOUD_TOKEN"
    assert str(error) == "listing: refused (unauthorized). Next: check HCLOUD_TOKEN."
    assert sentences(found) == (
        "the cloud does not answer: listing: refused (unauthorized). Next: check HCLOUD_TOKEN"
    )
    plain = refused("the cloud does not answer", Final("no route to host"), "check the access to hetzner")
    assert (
        sentences(plain) == "the cloud does not answer: no route to host. Next: check the access to hetzner"
    )
    assert sentences(Finding(True, "the store is ready")) == "the store is ready"
