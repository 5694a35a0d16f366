"""Row 45: `preferred_zones` is the last tie-break of what to keep; cpx12 needs `allow_small: true`."""

from __future__ import annotations

import pytest

from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.core.nodes.targets import choose_targets
from ebbtide.errors import ConfigError
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node
from tests.builders import NOW, make_node, make_nodes, make_record, make_settings, make_snapshot
from tests.unit.consolidation.builders import cheap, cluster, idle, node, removed, report_on, settings_with

FOUR = make_nodes("a1", "a2", "b1", "b2")


def chosen(nodes: tuple[Node, ...], *zones: str) -> str:
    settings = make_settings(preferred_zones=zones)
    removals, _ = choose_targets(make_snapshot(nodes), make_record(), settings, NOW, 1)
    return removals[0].node_name


def test_of_equally_full_zones_the_one_that_is_less_preferred_loses_a_node() -> None:
    assert chosen(FOUR) == "a1"
    assert chosen(FOUR, "b") == "a1"
    assert chosen(FOUR, "a") == "b1"
    assert chosen(FOUR, "a", "b") == "b1"


def test_the_fullest_zone_goes_first_whatever_is_preferred() -> None:
    assert chosen((*FOUR, make_node("a3")), "a") == "a1"


def test_consolidation_keeps_the_preferred_of_two_equal_nodes() -> None:
    """Three of four are kept, whichever they are; each zone keeps one."""
    nodes = [node(name, "cpx62") for name in ("a1", "a2", "b1", "b2")]
    for zone, gone in (("a", ["b1"]), ("b", ["a1"])):
        settings = settings_with(cheap(replace=False), min_workers=3, preferred_zones=(zone,))
        assert removed(report_on(cluster(nodes), idle(*nodes), settings)) == gone


def test_a_zone_that_is_not_named_ranks_after_those_that_are() -> None:
    settings = Settings(preferred_zones=("b", "a"))
    assert [settings.zone_rank(zone) for zone in "abc"] == [1, 0, 2]


def pool(extra: str = "") -> str:
    return f"pools: [{{name: a, types: [cpx12, cpx22], zones: [z]{extra}}}]"


def test_config_check_refuses_cpx12_unless_small_types_are_allowed() -> None:
    with pytest.raises(ConfigError, match=r'"cpx12" is too small for workers; .*allow_small: true'):
        build_config(parse_document(pool(), "ebbtide.yaml"), {})
    given = build_config(parse_document(pool(", allow_small: true"), "ebbtide.yaml"), {}).settings
    assert [each.name for each in given.pools[0].types] == ["cpx12", "cpx22"]


def test_preferred_zones_are_read_from_file_and_environment() -> None:
    read = parse_document("preferred_zones: [fsn1, nbg1]", "ebbtide.yaml")
    assert build_config(read, {}).settings.preferred_zones == ("fsn1", "nbg1")
    assert build_config(read, {"PREFERRED_ZONES": "hel1"}).settings.preferred_zones == ("hel1",)
