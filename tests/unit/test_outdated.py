"""Which workers are expired or drifted, and that a replacement never is."""

from __future__ import annotations

from itertools import product

import pytest

from ebbtide.core.nodes.unwell import (
    MOST_NAMED,
    NOT_READY,
    Drift,
    DriftKind,
    is_expired,
    outdated,
    outdated_among,
    track_unfit,
    unfit_workers,
    why_drifted,
)
from ebbtide.model.pod import Taint, TaintEffect
from ebbtide.model.pool import Pool, RemovalReason
from ebbtide.model.record import Unwell
from tests.builders import (
    NOW,
    make_instance,
    make_instance_of,
    make_node,
    make_pool,
    make_record,
    make_settings,
    make_snapshot,
    make_type,
)

GOLD = make_pool(labels=(("tier", "gold"),), taints=(Taint("only", TaintEffect.NO_SCHEDULE, "us"),))


def test_a_node_expires_at_the_age_that_its_pool_names() -> None:
    pool = make_pool(expire_seconds=7200)
    old, young = make_node(created_at=NOW - 7200), make_node(created_at=NOW - 7199)
    assert is_expired(old, pool, NOW)
    assert not is_expired(young, pool, NOW)
    assert not is_expired(old, make_pool(), NOW), "never where nothing is named"
    assert not is_expired(make_node(created_at=0), pool, NOW), "of an unknown age"


def test_a_type_that_the_pool_no_longer_has_is_drift() -> None:
    pool = make_pool(types=(make_type("new"), make_type("newer")), launch_hash="h")
    why = why_drifted(make_node(), make_instance(instance_type="old", launch_hash="h"), pool)
    assert why == Drift(DriftKind.TYPE, "workers", "old", "new, newer")
    assert why_drifted(make_node(instance_type=""), make_instance(instance_type=""), pool) is None


def test_a_node_without_a_hash_is_judged_by_what_can_be_seen() -> None:
    taints = GOLD.taints
    good = make_node(labels=(("tier", "gold"), ("more", "x")), taints=taints)
    assert why_drifted(good, make_instance(), GOLD) is None
    missing = make_node(taints=taints)
    assert why_drifted(missing, make_instance(), GOLD) == Drift(DriftKind.LABEL, "workers", "tier", "gold")
    other = make_node(labels=(("tier", "iron"),), taints=taints)
    assert why_drifted(other, make_instance(), GOLD) == Drift(
        DriftKind.LABEL, "workers", "tier", "gold", seen="iron"
    )
    open_to_all = make_node(labels=GOLD.labels)
    taint = "only=us:NoSchedule"
    assert why_drifted(open_to_all, make_instance(), GOLD) == Drift(DriftKind.TAINT, "workers", taint, taint)


def test_a_node_with_the_hash_of_its_pool_is_never_drifted_whatever_it_looks_like() -> None:
    """Else a label that the join does not set would have every replacement replaced again."""
    pool = make_pool(labels=(("tier", "gold"),), launch_hash="new")
    bare = make_node()
    assert why_drifted(bare, make_instance(launch_hash="new"), pool) is None
    assert why_drifted(bare, make_instance(launch_hash="old"), pool) == Drift(
        DriftKind.LABEL, "workers", "tier", "gold"
    )
    looks_right = make_node(labels=pool.labels)
    why = why_drifted(looks_right, make_instance(launch_hash="old"), pool)
    assert why == Drift(DriftKind.LAUNCH, "workers", "old", "new")
    assert why_drifted(looks_right, make_instance(), pool) is None, (
        "one without a hash is not drifted by hash"
    )


def test_status_names_every_cause_of_every_worker() -> None:
    settings = make_settings(
        repair=True, replace_drifted=True, pools=(make_pool(types=(make_type("new"),), expire_seconds=3600),)
    )
    record = make_record(unwell=(Unwell("uid-a1", NOT_READY, NOW - 60),))
    nodes = (make_node("b1", pool="gone"), make_node("a1", ready=False))
    found = [(one.node.name, one.cause) for one in unfit_workers(make_snapshot(nodes), record, settings, NOW)]
    causes = [RemovalReason.UNHEALTHY, RemovalReason.DRIFTED, RemovalReason.EXPIRED]
    assert found == [("a1", cause) for cause in causes]
    classic = make_settings(pools=settings.pools)
    assert [one.cause for one in outdated(nodes[1], make_snapshot(nodes), classic, NOW)] == causes[2:]
    assert list(outdated(nodes[1], make_snapshot(nodes, instances=[]), settings, NOW)) == []


def test_the_record_names_the_first_of_them_and_keeps_what_it_named_where_nothing_is_seen() -> None:
    settings = make_settings(pools=(make_pool(expire_seconds=3600),))
    many = make_snapshot([make_node(f"a{number}") for number in range(MOST_NAMED + 5)])
    record = track_unfit(many, make_record(), settings, NOW)
    assert len(record.unfit) == MOST_NAMED
    assert (record.unfit[0].node_name, record.unfit[0].reason) == ("a0", RemovalReason.EXPIRED)
    assert track_unfit(make_snapshot(problems=("no list",)), record, settings, NOW) == record
    assert track_unfit(make_snapshot(), record, settings, NOW).unfit == ()


HASHES = ("", "new", "old")
POOLS = [
    make_pool(labels=labels, taints=taints, launch_hash=launch_hash, expire_seconds=expire)
    for labels, taints in (((), ()), (GOLD.labels, ()), ((), GOLD.taints))
    for launch_hash in HASHES[:2]
    for expire in (0, 3600)
]


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("replace_drifted", [True, False])
def test_a_glance_skips_no_worker_that_is_drifted_or_expired(pool: Pool, replace_drifted: bool) -> None:
    settings = make_settings(replace_drifted=replace_drifted, pools=(pool,))
    nodes, instances = [], []
    for number, (kind, launch_hash, dressed) in enumerate(
        product((pool.types[0].name, "other", ""), HASHES, (True, False))
    ):
        like_pool = {"labels": pool.labels, "taints": pool.taints} if dressed else {}
        node = make_node(f"a{number}", instance_type=kind, created_at=NOW - 1800 * number, **like_pool)
        nodes.append(node)
        instances.append(make_instance_of(node, instance_type=kind, launch_hash=launch_hash))
    nodes += [make_node("alone"), make_node("elsewhere", pool="gone")]
    snapshot = make_snapshot(nodes, instances=[*instances, make_instance_of(nodes[-1])])
    each = [tuple(outdated(node, snapshot, settings, NOW)) for node in nodes]
    assert outdated_among(nodes, snapshot, settings, NOW) == [causes for causes in each if causes]
