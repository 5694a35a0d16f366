"""Launching on Hetzner through the real client: one server for one slot, whatever is lost on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.adapters.clouds import identity
from ebbtide.adapters.clouds.hetzner import HetznerCloud, HetznerSettings, make_client
from ebbtide.errors import ConfigError, Final, NoCapacity, NotOurs, Retryable, Throttled, Unanswered
from ebbtide.model.effect import Launch
from ebbtide.model.events import Alarm, Transition
from ebbtide.model.operation import Slot, SlotState
from ebbtide.model.snapshot import Market
from ebbtide.narrate import facts_in
from ebbtide.simulator.faults.ports import RunnerCrashed
from tests.servers.clouds import CLUSTER, HETZNER_POOL, HetznerBench
from tests.servers.hetzner import in_group
from tests.servers.stage import CrashesAfterLaunch, Stage

KEY = "1730000300-abc-0"


def ask(**slot: Any) -> Launch:
    given = {"key": KEY, "pool": "general", "zone": "fsn1", "instance_type": "cpx32", **slot}
    return Launch(Slot(**given), "op")


def repeat_until_answered(cloud: HetznerCloud, most: int) -> str:
    for _ in range(most):
        try:
            return cloud.launch(ask()).id
        except Unanswered:
            continue
    raise AssertionError(f"no answer to {most} launches")


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_a_launch_whose_reply_is_lost_creates_exactly_one_server(bench: HetznerBench, lost: int) -> None:
    bench.server.lose_replies("POST", lost)
    answered = repeat_until_answered(bench.cloud, lost + 1)
    assert [str(server["id"]) for server in bench.made()] == [answered]


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_the_engine_finds_the_one_server_of_a_lost_launch(bench: HetznerBench, lost: int) -> None:
    bench.server.lose_replies("POST", lost)
    stage = Stage(HETZNER_POOL)
    stage.ticks(bench.cloud, lost + 5)
    (slot,), (made,) = stage.slots, bench.made()
    assert (slot.state, slot.instance_id) == (SlotState.LAUNCHED, str(made["id"]))


def test_a_crash_between_launch_and_record_leaves_no_server_unaccounted_for(bench: HetznerBench) -> None:
    stage = Stage(HETZNER_POOL)
    with pytest.raises(RunnerCrashed):
        stage.ticks(CrashesAfterLaunch(bench.cloud), 5)
    successor = bench.connect()
    stage.tick(successor, after_seconds=stage.settings.lock_ttl_seconds + 1)
    successor.close()
    (slot,), (made,) = stage.slots, bench.made()
    assert slot.instance_id == str(made["id"])


def test_a_server_that_never_joins_is_gone_after_the_join_timeout(bench: HetznerBench) -> None:
    stage = Stage(HETZNER_POOL, join_timeout_seconds=240)
    stage.ticks(bench.cloud, 5)
    (launched,) = bench.cloud.list_instances()
    stage.ticks(bench.cloud, 10)
    assert launched.id not in [str(number) for number in bench.server.servers]
    changes = facts_in(stage.log(), Transition)
    assert (launched.id, SlotState.RECLAIMING) in [(one.instance_id, one.after) for one in changes]


def test_a_server_carries_its_labels_and_a_name_from_its_slot(bench: HetznerBench) -> None:
    key = "spot:4711-0r1"
    launched = bench.cloud.launch(ask(key=key))
    assert launched.key == key
    (made,) = bench.made()
    assert made["name"] == identity.server_name("shop", "general", key)
    assert made["labels"][identity.CLUSTER] == "shop"
    assert [i.key for i in bench.cloud.list_instances()] == [key]


def test_a_launch_asks_for_network_keys_and_placement_group() -> None:
    bench = HetznerBench(networks=(7,), ssh_keys=("ops",), placement_groups=(3,), public_ipv4=False)
    bench.cloud.launch(ask())
    asked = bench.made()[0]["asked"]
    assert (asked["networks"], asked["ssh_keys"], asked["placement_group"]) == ([7], ["ops"], 3)
    assert asked["public_net"]["enable_ipv4"] is False
    assert (asked["location"], asked["image"], asked["server_type"]) == ("fsn1", "debian-12", "cpx32")
    bench.close()


def test_nodes_are_spread_over_the_placement_groups_and_a_full_one_leads_to_the_next() -> None:
    bench = HetznerBench(placement_groups=(3, 4))

    def groups() -> Counter[int]:
        return Counter(map(in_group, bench.made()))

    for number in range(3):
        bench.cloud.launch(ask(key=f"op-{number}"))
    assert groups() == {3: 2, 4: 1}
    bench.server.group_size = 2
    successor = bench.connect()
    successor.list_instances()
    successor.launch(ask(key="op-3"))
    assert groups() == {3: 2, 4: 2}, "what was listed is known"
    for _ in range(2):
        with pytest.raises(NoCapacity, match=r"give one more in hetzner\.placement_groups"):
            successor.launch(ask(key="op-4"))
    bench.server.group_size = 3
    successor.list_instances()
    successor.launch(ask(key="op-4"))
    assert groups().total() == 5
    successor.close()
    bench.close()


def test_a_name_that_somebody_else_has_is_not_adopted(bench: HetznerBench) -> None:
    bench.server.make(identity.server_name("shop", "general", KEY), "fsn1", "cpx32", {})
    with pytest.raises(NotOurs, match="rename"):
        bench.cloud.launch(ask())


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        ("resource_unavailable", NoCapacity, "no capacity for it now"),
        ("placement_error", NoCapacity, "placement group"),
        ("resource_limit_exceeded", NoCapacity, "higher one"),
        ("rate_limit_exceeded", Throttled, "rate limit"),
        ("conflict", Retryable, "not now"),
        ("service_error", Unanswered, "may have been done"),
        ("forbidden", Final, "may write"),
    ],
)
def test_each_refusal_has_its_meaning(
    bench: HetznerBench, code: str, kind: type[Exception], says: str
) -> None:
    bench.server.refuse("POST", code)
    with pytest.raises(kind, match=says):
        bench.cloud.launch(ask())
    assert bench.made() == []
    assert bench.server.calls["POST"] == 1


def test_a_type_that_is_not_offered_in_a_location_is_launched_in_another(bench: HetznerBench) -> None:
    """Hetzner says so with the code of any wrong input. The same offer was chosen again and again."""
    here, elsewhere = HETZNER_POOL.zones[:2]
    bench.server.not_offered = {(kind.name, here) for kind in HETZNER_POOL.types}
    stage = Stage(HETZNER_POOL)
    stage.ticks(bench.cloud, 5)
    assert [slot.zone for slot in stage.slots] == [elsewhere]
    assert [server["location"]["name"] for server in bench.made()] == [elsewhere]


@pytest.mark.parametrize(("launch_hash", "stays"), [("theirs", True), ("ours", False)])
def test_the_servers_of_another_cluster_of_the_same_name_are_left_alone(
    bench: HetznerBench, launch_hash: str, stays: bool
) -> None:
    """K3s calls every context "default". What a crash of ours left behind is still removed."""
    stage = Stage(replace(HETZNER_POOL, launch_hash="ours"))
    stage.ticks(bench.cloud, 5)
    stage.join(next(one for one in bench.cloud.list_instances() if one.key))
    labels = {
        identity.CLUSTER: CLUSTER,
        identity.POOL: "general",
        identity.SLOT: "1730000300-xyz-0",
        identity.LAUNCH_HASH: launch_hash,
    }
    other = bench.server.make("shop-general-other", "fsn1", "cpx32", labels)
    stage.ticks(bench.cloud, 80)
    assert (other["id"] in bench.server.servers) is stays
    alarms = facts_in(stage.notifier.entries, Alarm)
    assert any(str(other["id"]) in alarm.detail for alarm in alarms) is stays


def test_a_wrong_token_is_said_and_nothing_is_made(bench: HetznerBench) -> None:
    cloud = bench.connect("wrong")
    with pytest.raises(Final, match="HCLOUD_TOKEN") as caught:
        cloud.launch(ask())
    assert "wrong" not in str(caught.value)
    cloud.close()
    assert bench.made() == []


def test_no_token_at_all_is_a_problem_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match="HCLOUD_TOKEN"):
        make_client("")


def test_an_image_must_be_configured() -> None:
    with pytest.raises(ConfigError, match=r"hetzner\.image"):
        HetznerSettings("shop", (HETZNER_POOL,), "")


@pytest.mark.parametrize("wrong", [{"instance_type": "cpx99"}, {"zone": "atlantis"}])
def test_an_unknown_type_or_location_is_said(bench: HetznerBench, wrong: dict[str, str]) -> None:
    with pytest.raises(Final, match=next(iter(wrong.values()))):
        bench.cloud.launch(ask(**wrong))


def test_an_unknown_image_is_said() -> None:
    bench = HetznerBench(image="debian-99")
    with pytest.raises(Final, match="debian-99"):
        bench.cloud.launch(ask())
    bench.close()


def test_hetzner_has_no_spot_market_and_says_so_at_once(bench: HetznerBench) -> None:
    with pytest.raises(NoCapacity, match="no spot market"):
        bench.cloud.launch(ask(market=Market.SPOT))
    assert bench.server.calls["POST"] == 0


def test_deletion_protection_is_said(bench: HetznerBench) -> None:
    launched = bench.cloud.launch(ask())
    bench.server.servers[int(launched.id)]["protection"]["delete"] = True
    with pytest.raises(Final, match="protection"):
        bench.cloud.terminate(launched.id)


def test_a_deletion_whose_reply_is_lost_may_be_repeated(bench: HetznerBench) -> None:
    launched = bench.cloud.launch(ask())
    bench.server.lose_replies("DELETE", 1)
    with pytest.raises(Unanswered):
        bench.cloud.terminate(launched.id)
    bench.cloud.terminate(launched.id)
    assert bench.made() == []


def test_a_long_list_is_read_to_its_end(bench: HetznerBench) -> None:
    for number in range(60):
        bench.cloud.launch(ask(key=f"op-{number}"))
    assert len(bench.cloud.list_instances()) == 60


def test_an_api_that_cannot_be_reached_did_nothing(bench: HetznerBench) -> None:
    bench.server.stop()
    with pytest.raises(Retryable, match="cannot be reached"):
        bench.cloud.launch(ask())


def test_no_capacity_in_one_location_leads_to_the_next(bench: HetznerBench) -> None:
    bench.server.closed_locations.add("fsn1")
    stage = Stage(HETZNER_POOL)
    stage.ticks(bench.cloud, 5)
    assert [server["location"]["name"] for server in bench.made()] == ["nbg1"]


def test_no_capacity_anywhere_is_said_and_leaks_nothing(bench: HetznerBench) -> None:
    bench.server.closed_locations.update(("fsn1", "nbg1"))
    stage = Stage(HETZNER_POOL)
    stage.ticks(bench.cloud, 4)
    assert SlotState.FAILED in [change.after for change in facts_in(stage.log(), Transition)]
    assert bench.made() == []
