"""Repair, expiry and drift as they are written down, and what is refused about them."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.config.adapters import AdapterSections
from ebbtide.config.document import parse_document
from ebbtide.config.load import Config, build_config, launch_hash
from ebbtide.errors import ConfigError
from tests.builders import make_pool

POOL = "pools: [{name: general, types: [cpx32], zones: [a]%s}]\n"


def read(text: str) -> Config:
    return build_config(parse_document(text, "ebbtide.yaml"), {})


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return str(caught.value)


def hash_of(pool: str = "") -> str:
    return read(POOL % pool).settings.pools[0].launch_hash


def test_it_is_off_in_classic_and_on_in_the_other_profiles() -> None:
    classic = read(POOL % "").settings
    assert (classic.repair, classic.replace_drifted, classic.repair_after_seconds) == (False, False, 600)
    assert classic.pools[0].expire_seconds == 0
    for profile in ("balanced", "eager"):
        settings = read(f"profile: {profile}\n").settings
        assert (settings.repair, settings.replace_drifted) == (True, True)


def test_conditions_have_a_status_and_true_is_meant_where_none_is_named() -> None:
    settings = read("repair_conditions: [KernelDeadlock, example.com/Disk=False]\n").settings
    assert settings.repair_conditions == ("KernelDeadlock=True", "example.com/Disk=False")


@pytest.mark.parametrize("wrong", ["'Disk Pressure'", "DiskPressure=yes", "=True", "7", "''"])
def test_what_is_no_condition_is_refused(wrong: str) -> None:
    says = refusal(f"repair_conditions: [{wrong}]\n")
    assert (
        "not a condition; allowed: Type or Type=Status, such as KernelDeadlock or DiskPressure=True" in says
    )


def test_ready_need_not_be_listed() -> None:
    assert "a worker that is not Ready is unwell" in refusal("repair_conditions: [Ready=False]\n")


def test_a_node_must_not_expire_before_its_replacement_has_joined() -> None:
    assert read(POOL % ", expire_after: 601s").settings.pools[0].expire_seconds == 601
    says = refusal(POOL % ", expire_after: 10m")
    assert "line 1, pools[0].expire_after: 10 min is not above join_timeout_sec (600)" in says
    assert "allowed: more than 10 min" in says
    assert "not a duration" in refusal(POOL % ", expire_after: 30")
    assert "expires after 30 days" in str(read(POOL % ", expire_after: 30d").effective)


def test_repair_is_not_for_a_kubelet_that_restarts() -> None:
    assert "repair_after_sec" in refusal("repair_after_sec: 59\n")


def sections(**given: Any) -> AdapterSections:
    return AdapterSections.model_validate(given)


def test_the_hash_tells_what_a_node_is_launched_with_and_nothing_else() -> None:
    plain, pool = hash_of(), make_pool()
    assert plain == hash_of(", expire_after: 30d, max: 4")
    assert launch_hash(pool, sections()) == launch_hash(pool, sections(join={"k3s_version": ""}))
    given: tuple[dict[str, Any], ...] = (
        {},
        {"join": {"k3s_version": "v1.34.1+k3s1"}},
        {"aws": {"image": "ami-1"}},
        {"aws": {"launch_template": "lt-1:2"}},
        {"hetzner": {"image": "debian-13"}},
    )
    found = [launch_hash(pool, sections(**one)) for one in given]
    found += [
        hash_of(),
        hash_of(", labels: {tier: gold}"),
        hash_of(", taints: [{key: a, effect: NoSchedule}]"),
    ]
    assert found[0] == found[5], "the name of a pool says nothing about its nodes"
    assert len(set(found)) == len(found) - 1


@pytest.mark.parametrize(("kind", "other"), [("aws", "hetzner"), ("hetzner", "aws")])
def test_only_the_cloud_that_is_used_is_in_the_hash(kind: str, other: str) -> None:
    mine = {"cloud": {"kind": kind}, kind: {"image": "one"}}
    before = launch_hash(make_pool(), sections(**mine))
    assert before == launch_hash(make_pool(), sections(**mine, **{other: {"image": "two"}}))
    assert before != launch_hash(make_pool(), sections(**{**mine, kind: {"image": "two"}}))
