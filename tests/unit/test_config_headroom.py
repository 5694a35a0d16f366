"""Headroom, weights and limits as they are written down, and what is refused about them, with the numbers."""

from __future__ import annotations

import pytest

from ebbtide.bootstrap.scaling import with_scaling
from ebbtide.config.document import parse_document
from ebbtide.config.load import Config, build_config
from ebbtide.engine.ports import nothing_expected, observe
from ebbtide.errors import ConfigError
from ebbtide.model.pool import CronWindow, Headroom, PoolLimits
from ebbtide.model.settings import ForecastSettings
from tests.unit.engine.builders import Small

POOLS = """
pools:
  - {name: general, types: [{name: s, cpu: 2, memory: 4Gi}, {name: m, cpu: 4, memory: 8Gi}], zones: [a, b]}
  - name: gpu
    types: [{name: g, cpu: 16, memory: 64Gi}]
    zones: [c]
    taints: [{key: gpu, effect: NoSchedule}]
"""


def read(text: str) -> Config:
    return build_config(parse_document(text, "ebbtide.yaml"), {})


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return str(caught.value).replace('"', "'")


def test_a_headroom_has_a_size_a_count_a_place_and_a_window() -> None:
    written = """
headroom:
  - {cpu: 500m, memory: 1Gi}
  - {cpu: 2, memory: 2Gi, count: 3, pool: general, zones: [a],
     schedule: {cron: "0 7 * * mon-fri", duration: 12h, zone: Europe/Berlin}}
"""
    config = read(POOLS + written)
    window = CronWindow("0 7 * * mon-fri", "Europe/Berlin", 43_200)
    assert config.settings.headroom == (
        Headroom(500, 1024),
        Headroom(2000, 2048, 3, "general", ("a",), window),
    )
    shown = next(one for one in config.effective if one.key == "headroom")
    assert shown.value[1] == (
        "3 pods of 2000m CPU and 2048 MiB in pool general in a "
        "from '0 7 * * mon-fri' in Europe/Berlin for 12 h"
    )


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (
            "{cpu: 5, memory: 1Gi}",
            "no type of any pool can hold a pod of 5000m CPU and 1024 MiB; the largest is m with "
            "4000m CPU and 8192 MiB; use smaller pods and a higher count, or add a larger type",
        ),
        ("{cpu: 1, memory: 9Gi, pool: general}", "no type of pool 'general' can hold a pod of 1000m CPU and"),
        (
            "{cpu: 1, memory: 1Gi, zones: [c]}",
            "1000m CPU and 1024 MiB fit no node: every pool in these zones",
        ),
        ("{cpu: 1, memory: 1Gi, pool: nope}", "'nope' is not a pool; allowed: general, gpu"),
        ("{cpu: 1, memory: 1Gi, zones: [x]}", "'x' is not a zone of any pool; allowed: a, b, c"),
        ("{cpu: 1, memory: 1Gi, pool: gpu, zones: [a]}", "'a' is not a zone of pool 'gpu'; allowed: c"),
        ("{cpu: 1, memory: 1Gi, count: 0}", "headroom[0].count"),
        ("{cpu: 0, memory: 1Gi}", "headroom[0].cpu"),
        ("{cpu: 1}", "headroom[0].memory"),
        ("{cpu: 1, memory: 1Gi, schedule: {cron: nope, duration: 1h}}", "headroom[0].schedule.cron"),
        ("{cpu: 1, memory: 1Gi, schedule: {cron: '@daily'}}", "headroom[0].schedule.duration"),
        ("{cpu: 1, memory: 1Gi, schedule: {cron: '@daily', duration: 1h, zone: Mars}}", "schedule.zone"),
    ],
)
def test_what_no_node_can_hold_and_names_that_nothing_has_are_refused(entry: str, says: str) -> None:
    assert says in refusal(f"{POOLS}headroom: [{entry}]")


def test_a_pool_with_taints_is_meant_by_name() -> None:
    assert read(f"{POOLS}headroom: [{{cpu: 8, memory: 8Gi, pool: gpu}}]").settings.headroom[0].pool == "gpu"


def test_without_pools_no_name_is_checked() -> None:
    assert read("headroom: [{cpu: 1, memory: 1Gi}]").settings.headroom == (Headroom(1000, 1024),)


def pool(keys: str) -> str:
    return f"pools: [{{name: p, types: [{{name: s, cpu: 2, memory: 4Gi}}, cpx42], zones: [a], {keys}}}]"


def test_a_pool_has_a_weight_and_limits() -> None:
    (found,) = read(pool("weight: 7, limits: {cpu: 64, memory: 256Gi}")).settings.pools
    assert (found.weight, found.limits) == (7, PoolLimits(64_000, 262_144))
    assert read(pool("min: 0")).settings.pools[0].limits is None
    assert read(pool("limits: {}")).settings.pools[0].limits is None
    config = read(pool("weight: 7, limits: {cpu: 64, memory: 256Gi}"))
    (line,) = next(one for one in config.effective if one.key == "pools").value
    assert line.endswith("0 or more; weight 7; 64000m CPU at most; 262144 MiB at most")


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ("weight: -1", "pools[0].weight"),
        ("weight: 1001", "pools[0].weight"),
        (
            "limits: {cpu: 1}",
            "pools[0].limits.cpu: 1000m CPU is less than one node of the smallest type of pool 'p' offers "
            "(2000m CPU), so it could launch none; allowed: at least 2000m CPU",
        ),
        ("limits: {memory: 3Gi}", "3072 MiB is less than one node of the smallest type of pool 'p' offers"),
        (
            "min: 3, limits: {cpu: 5}",
            "5000m CPU is less than the min of pool 'p' needs: 3 nodes of at least 2000m CPU; "
            "allowed: at least 6000m CPU, or lower min",
        ),
        ("limits: {disk: 3}", "pools[0].limits.disk"),
    ],
)
def test_weights_and_limits_that_cannot_be_meant_are_refused(keys: str, says: str) -> None:
    assert says in refusal(pool(keys))


def test_looking_ahead_is_off_until_it_is_asked_for() -> None:
    assert not read("").settings.forecast.enabled
    found = read("forecast: {enabled: true, ahead_sec: 3600, quantile: 0.95}\n").settings.forecast
    assert found == ForecastSettings(True, 3600, 0.95)
    assert "900" in refusal("forecast: {ahead_sec: 60}\n")


def test_a_process_that_stays_looks_ahead_where_that_is_configured() -> None:
    config, small = read("forecast: {enabled: true}\n"), Small()
    assert with_scaling(config, small.ports).ports.expecting is nothing_expected
    looking = with_scaling(config, small.ports, stays=True).ports
    found = looking.expecting(small.settings, observe(small.ports, small.settings))
    assert "forecast for pool workers: off" in found.headroom[0].expected
