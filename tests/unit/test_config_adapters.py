"""The keys of a real cluster: what belongs together, what is refused, and what is never shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ebbtide.config import Config
from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.errors import ConfigError
from ebbtide.model.snapshot import Market

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
POOLS = "pools: [{name: a, types: [cpx22], zones: [z]}]\n"
AWS = "cluster: {kind: kubernetes}\ncloud: {kind: aws}\naws: {image: ami-1}\n" + POOLS
HETZNER = "cluster: {kind: kubernetes}\ncloud: {kind: hetzner}\nhetzner: {image: debian-12}\n" + POOLS


def read(text: str, **environ: str) -> Config:
    return build_config(parse_document(text, "ebbtide.yaml"), environ)


def refused(text: str, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text, **environ)
    return str(caught.value)


def examples() -> list[str]:
    section = PAGE.read_text(encoding="utf-8").partition("## On a real cluster")[2].partition("\n## ")[0]
    return re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)


def test_the_example_for_ec2_loads_as_it_is_printed() -> None:
    config = read(examples()[0])
    keys = config.adapters
    assert (config.cluster_kind, config.kubeconfig, keys.cloud.kind) == (
        "kubernetes",
        "/etc/ebbtide/kubeconfig",
        "aws",
    )
    assert keys.aws.subnets == {"eu-central-1a": "subnet-0aaa", "eu-central-1b": "subnet-0bbb"}
    assert keys.join.token_parameter == "/ebbtide/shop/join-token"
    assert [pool.market for pool in config.settings.pools] == [Market.ON_DEMAND, Market.SPOT]
    assert config.settings.pools[0].types[0].max_pods == 29


def test_the_example_for_hetzner_loads_as_it_is_printed() -> None:
    keys = read(examples()[1]).adapters
    assert (keys.cloud.kind, keys.hetzner.image, keys.hetzner.networks) == ("hetzner", "123456789", (4711,))
    assert keys.hetzner.public_ipv4 is False
    assert len(examples()) == 2


def test_the_least_that_a_real_cluster_needs_is_enough() -> None:
    assert read(AWS).adapters.cloud.kind == "aws"
    assert read(HETZNER).adapters.cloud.kind == "hetzner"


def test_a_real_cluster_without_cloud_and_pool_is_told_both() -> None:
    says = refused("cluster: {kind: kubernetes}")
    assert "2 problems" in says
    assert "cloud.kind: is missing" in says
    assert "pools: is missing" in says


def test_an_empty_list_of_pools_is_one_problem() -> None:
    assert "1 problem;" in refused(AWS.replace(POOLS, "pools: []\n"))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("cloud: {kind: aws}", "cloud.kind"),
        ("aws: {image: ami-1}", "aws"),
        ("hetzner: {image: x}", "hetzner"),
        ("join: {server_url: 'https://h:6443'}", "join"),
        ("metrics: {prometheus_url: 'http://h'}", "metrics"),
        ("cluster: {kubeconfig: k}", "cluster.kubeconfig"),
        ("cluster: {context: k}", "cluster.context"),
    ],
)
def test_a_simulated_cluster_has_none_of_it(text: str, place: str) -> None:
    assert f"ebbtide.yaml line 1, {place}: is given, but cluster.kind is simulator" in refused(text)


def test_a_region_that_other_programs_set_disturbs_no_simulated_cluster() -> None:
    assert read("", AWS_REGION="eu-central-1").cluster_kind == "simulator"
    assert read(HETZNER, AWS_REGION="eu-central-1").adapters.cloud.kind == "hetzner"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (AWS.replace("{image: ami-1}", "{}"), "aws.image: is missing, and EC2 needs it or launch_template"),
        (AWS + "hetzner: {image: x}", "hetzner: is given, but cloud.kind is aws"),
        (AWS + "join: {kind: k8s, server_url: 'https://h'}", 'join.kind: "k8s" is not allowed'),
        (AWS + "join: {kind: rke2, token_file: /t}", "join.server_url: is missing"),
        (
            AWS + "join: {kind: kubeadm, server_url: 'https://h', token_file: /t}",
            "join.ca_cert_hash: is missing",
        ),
        (AWS + "join: {kind: kubeadm, ca_cert_hash: abc}", 'join.ca_cert_hash: "abc" is not allowed'),
        (AWS + "join: {kind: eks, server_url: 'https://h'}", "join.cluster_name: is missing"),
        (
            AWS + "join: {kind: eks, token_file: /t}",
            "join.token_file: is given, and a node of EKS proves itself",
        ),
        (AWS + "join: {kind: eks, service_cidr: x}", 'join.service_cidr: "x" is not a network'),
        (AWS + "join: {kind: custom}", "join.template: is missing"),
        (AWS + "join: {kind: custom, template: '{{ poo }}'}", "join.template: {{ poo }} is not known"),
        (AWS + "join: {server_url: 'https://h', template: x}", "join.template: is for join.kind custom"),
        (
            AWS + "join: {kind: rke2, k3s_version: v1}",
            "join.k3s_version: is for join.kind k3s, and it is rke2",
        ),
        (
            AWS + "join: {server_url: 'https://h', token_file: /t, token_command: x}",
            "join.token_command: is given next to token_file",
        ),
        (HETZNER + "join: {kind: eks}", 'join.kind: "eks" is not allowed with cloud.kind hetzner'),
        (HETZNER + "join: {server_url: 'https://h', token_secret: s}", "join.token_secret: is for aws"),
        (AWS + "join: {server_url: 'https://h'}", "join.token_parameter: is missing"),
        (AWS + "join: {token_parameter: p}", "join.server_url: is missing"),
        (AWS + "join: {server_url: 'h:6443'}", 'join.server_url: "h:6443" is not allowed; allowed: a URL'),
        (AWS.replace("ami-1", "ami-1, subnets: {y: s}"), 'pools[0].zones: "z" has no subnet in aws.subnets'),
        (AWS.replace("image", "imaeg"), "aws.imaeg: unknown key; did you mean image?"),
        (AWS + "metrics: {query: up}", "metrics.query: needs metrics.prometheus_url"),
        (AWS + "metrics: {token_file: t}", "metrics.token_file: needs metrics.prometheus_url"),
        (
            AWS + "metrics: 5",
            "metrics: 5 is not allowed; allowed: the keys prometheus_url, query",
        ),
        (AWS.replace("kind: aws", "kind: gcp"), 'cloud.kind: "gcp" is not allowed; allowed: aws or hetzner'),
        (HETZNER.replace("zones: [z]", "zones: [z], market: spot"), 'pools[0].market: "spot" is not allowed'),
        (HETZNER.replace("{image: debian-12}", "{}"), "hetzner.image: is missing"),
        (
            HETZNER.replace("debian-12", "12"),
            "hetzner.image: 12 is not allowed; allowed: the name",
        ),
        (HETZNER + "aws: {key_name: k}", "aws: is given, but cloud.kind is hetzner"),
        (HETZNER + "join: {server_url: 'https://h', token_parameter: p}", "join.token_parameter: is for aws"),
    ],
)
def test_what_does_not_belong_together_is_refused_with_its_place(text: str, says: str) -> None:
    assert says in refused(text)


def test_the_hetzner_token_has_no_place_in_the_file_and_is_not_repeated() -> None:
    says = refused(HETZNER.replace("debian-12", "debian-12, token: hunter2"))
    assert "hetzner.token: unknown key; did you mean token_file?" in says
    assert "hunter2" not in says


def test_variables_win_over_the_file_here_too() -> None:
    keys = read(
        HETZNER, HETZNER_NETWORKS="1, 2", HETZNER_FIREWALLS="[3]", HETZNER_PUBLIC_IPV4="false"
    ).adapters
    assert (keys.hetzner.networks, keys.hetzner.firewalls, keys.hetzner.public_ipv4) == ((1, 2), (3,), False)
    whole = read(POOLS, CLUSTER_KIND="kubernetes", CLOUD_KIND="aws", AWS_IMAGE="ami-2", AWS_SUBNETS="{z: s}")
    assert (whole.adapters.aws.image, whole.adapters.aws.subnets) == ("ami-2", {"z": "s"})
    says = refused(HETZNER, HETZNER_NETWORKS="one")
    assert 'environment variable HETZNER_NETWORKS: "one" is not allowed; allowed: a list of numbers' in says


def test_no_default_breaks_the_table_of_keys() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `join.")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}


def test_what_may_hold_a_secret_is_not_shown() -> None:
    config = read(
        AWS
        + "join: {server_url: 'https://h', token_command: echo hunter2}\n"
        + "metrics: {prometheus_url: 'http://me:hunter2@h'}"
    )
    assert "hunter2" in config.adapters.join.token_command
    shown = {one.key: one.value for one in config.effective}
    assert (shown["join.token_command"], shown["metrics.prometheus_url"]) == ("***", "http://***@h")
    assert "hunter2" not in str(shown)
