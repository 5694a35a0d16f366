"""What a sleeping or waking pool asks of the nodes."""

from __future__ import annotations

from typing import Any

from ebbtide.core.floor import settings_for
from ebbtide.model.idle import Phase
from ebbtide.model.policy import Policy, Target
from tests.builders import make_pool, make_settings
from tests.yard import make_policy, make_state

SETTINGS = make_settings(pools=(make_pool("a", min_workers=2, max_workers=5), make_pool("b")), min_workers=3)


def of_pool(name: str = "a", **overrides: Any) -> Policy:
    return make_policy(target=Target(pool=name), **overrides)


def test_without_policies_of_pools_nothing_changes() -> None:
    assert settings_for(SETTINGS, [], someone_wakes=False) is SETTINGS
    assert settings_for(SETTINGS, [(of_pool("gone"), make_state())], someone_wakes=False) is SETTINGS


def test_a_pool_that_sleeps_may_be_empty_and_the_others_keep_their_minimum() -> None:
    found = settings_for(SETTINGS, [(of_pool(), make_state(Phase.ZERO))], someone_wakes=False)
    assert [pool.min_workers for pool in found.pools] == [0, 0]
    assert found.min_workers == 1


def test_where_every_pool_sleeps_the_cluster_may_be_empty() -> None:
    both = [(of_pool(name), make_state(Phase.ZERO)) for name in ("a", "b")]
    assert settings_for(SETTINGS, both, someone_wakes=False).min_workers == 0


def test_a_pool_that_is_awake_keeps_what_its_policy_asks_for() -> None:
    waking = [
        (of_pool("b", min_replicas=2), make_state(Phase.WAKING)),
        (of_pool(min_replicas=9), make_state()),
    ]
    found = settings_for(SETTINGS, waking, someone_wakes=False)
    assert [pool.min_workers for pool in found.pools] == [5, 2]
    assert found.min_workers == 3


def test_a_disabled_policy_asks_for_nothing() -> None:
    idle = (of_pool("b", enabled=False), make_state())
    assert settings_for(SETTINGS, [idle], someone_wakes=False) is SETTINGS


def test_while_something_wakes_no_pod_is_left_pending_first() -> None:
    found = settings_for(SETTINGS, [], someone_wakes=True)
    assert (found.pending_up_seconds, found.cooldown_up_seconds) == (0, 0)
    assert found.pools == SETTINGS.pools
