"""Adopting servers of Hetzner through the real client: found by id or address, labelled without loss."""

from __future__ import annotations

import pytest

from ebbtide.adapters.clouds.hetzner import make_client
from ebbtide.adapters.clouds.looking import HetznerAdopter
from ebbtide.errors import EbbtideError, Unanswered
from tests.builders import make_node
from tests.servers.clouds import HetznerBench
from tests.servers.hetzner import TOKEN


@pytest.fixture
def adopter(bench: HetznerBench) -> HetznerAdopter:
    return HetznerAdopter(make_client(TOKEN, bench.server.url))


def test_a_server_is_found_by_its_id_or_its_address_and_keeps_the_labels_that_it_has(
    bench: HetznerBench, adopter: HetznerAdopter
) -> None:
    one = bench.server.make("agent-1", "fsn1", "cpx32", {"team": "shop"})
    two = bench.server.make("agent-2", "nbg1", "cpx32", {})
    nodes = [
        make_node("a1", provider_id=f"hcloud://{one['id']}"),
        make_node("b1", provider_id="", private_ip=two["private_net"][0]["ip"]),
        make_node("c1", provider_id="hcloud://999"),
        make_node("d1", provider_id="", private_ip="10.9.9.9"),
    ]
    found = adopter.find(nodes)
    assert {name: machine.id for name, machine in found.items()} == {
        "a1": str(one["id"]),
        "b1": str(two["id"]),
    }
    assert found["a1"].instance_type == "cpx32"
    for _ in range(2):
        adopter.tag(found["a1"], "my_shop", "general")
    labels = bench.server.servers[one["id"]]["labels"]
    assert labels["team"] == "shop"
    again = adopter.find(nodes)["a1"]
    assert (again.cluster, again.pool, again.keeper) == ("my_shop", "general", "")


def test_a_server_of_another_autoscaler_says_whose_it_is(
    bench: HetznerBench, adopter: HetznerAdopter
) -> None:
    server = bench.server.make("pool-1", "fsn1", "cpx32", {"hcloud/node-group": "pool"})
    found = adopter.find([make_node("a1", provider_id=f"hcloud://{server['id']}")])
    assert found["a1"].keeper == "cluster-autoscaler node group pool"


def test_a_lost_reply_and_a_refusal_are_errors_of_ours(bench: HetznerBench, adopter: HetznerAdopter) -> None:
    server = bench.server.make("agent-1", "fsn1", "cpx32", {})
    found = adopter.find([make_node("a1", provider_id=f"hcloud://{server['id']}")])
    bench.server.lose_replies("PUT", 1)
    with pytest.raises(Unanswered):
        adopter.tag(found["a1"], "shop", "general")
    with pytest.raises(EbbtideError):
        HetznerAdopter(make_client("another-token", bench.server.url)).find([])
