"""What only shows when keys are looked at together: limits that contradict each other, names used twice,
limits that no node of a pool could stay within, and headroom that no node could hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlsplit

from ebbtide.config.adapter_checks import check_adapters, check_addresses, check_api
from ebbtide.config.nodes import BudgetKeys, HeadroomKeys
from ebbtide.config.policies import PolicyKeys
from ebbtide.config.pools import TOO_SMALL, PoolKeys
from ebbtide.config.problems import ConfigProblem, shown
from ebbtide.config.schema import STORE_FORMS, Document
from ebbtide.core.scale_to_zero.policy_checks import check_policy
from ebbtide.core.words import a_while
from ebbtide.model.pool import NodeType


def check(document: Document) -> Iterator[ConfigProblem]:
    yield from _limits(document)
    yield from _times(document)
    yield from _store(document)
    yield from _pools(document)
    yield from _budgets(document)
    yield from check_headroom(document.headroom, document.pools)
    yield from check_policies(document.policies, [pool.name for pool in document.pools])
    yield from check_adapters(document)
    yield from check_api(document.api)
    yield from check_addresses(document)


def _limits(d: Document) -> Iterator[ConfigProblem]:
    if d.min_workers > d.max_workers:
        yield ConfigProblem(
            ("min_workers",),
            f"{d.min_workers} is above max_workers ({d.max_workers}); allowed: 0 to {d.max_workers}, "
            "or raise max_workers",
            ("max_workers",),
        )
    if d.cpu_down >= d.cpu_up:
        yield ConfigProblem(
            ("cpu_down",),
            f"{d.cpu_down} is not below cpu_up ({d.cpu_up}), so the cluster would grow and shrink at once; "
            f"allowed: less than {d.cpu_up}",
            ("cpu_up",),
        )


def _times(d: Document) -> Iterator[ConfigProblem]:
    if d.drain_timeout_sec > d.stuck_sec:
        yield ConfigProblem(
            ("drain_timeout_sec",),
            f"{d.drain_timeout_sec} is above stuck_sec ({d.stuck_sec}), so every drain would be aborted "
            f"before its time; allowed: 1 to {d.stuck_sec}",
            ("stuck_sec",),
        )
    for key, ttl in (
        ("lock_ttl_sec", d.lock_ttl_sec),
        ("spot_lock_ttl_sec", d.spot_lock_ttl_sec),
        ("daemon_lock_ttl_sec", d.daemon_lock_ttl_sec),
    ):
        if ttl <= d.lease_margin_sec:
            yield ConfigProblem(
                (key,),
                f"{ttl} is not above lease_margin_sec ({d.lease_margin_sec}), so nothing could ever be "
                f"started; allowed: more than {d.lease_margin_sec}",
                ("lease_margin_sec",),
            )
    if d.backoff_sec > d.backoff_max_sec:
        yield ConfigProblem(
            ("backoff_sec",),
            f"{d.backoff_sec} is above backoff_max_sec ({d.backoff_max_sec}); "
            f"allowed: 1 to {d.backoff_max_sec}",
            ("backoff_max_sec",),
        )
    if d.interval_sec > d.max_tick_gap_sec:
        yield ConfigProblem(
            ("interval_sec",),
            f"{d.interval_sec} is above max_tick_gap_sec ({d.max_tick_gap_sec}), so no idle time would "
            f"ever be counted; allowed: 1 to {d.max_tick_gap_sec}",
            ("max_tick_gap_sec",),
        )


def _store(d: Document) -> Iterator[ConfigProblem]:
    url = d.store.url
    try:
        parts = urlsplit(url)
    except ValueError:
        yield ConfigProblem(("store", "url"), f"{shown(url)} is not a URL; allowed: {STORE_FORMS}")
        return
    if parts.scheme not in ("sqlite", "postgresql+psycopg", "postgresql", "dynamodb"):
        yield ConfigProblem(("store", "url"), f"{shown(url)} is not a known store; allowed: {STORE_FORMS}")
    elif parts.scheme == "sqlite" and (parts.netloc or parts.path in ("", "/", "/:memory:")):
        yield ConfigProblem(
            ("store", "url"),
            f"{shown(url)} names no file to keep the record in; allowed: sqlite:///FILE "
            "(sqlite:////FILE for a path from the root)",
        )


def _pools(d: Document) -> Iterator[ConfigProblem]:
    if "pools" in d.model_fields_set and not d.pools:
        yield ConfigProblem(("pools",), "is empty; give at least one pool, or nothing can be launched")
    names = [pool.name for pool in d.pools]
    for number, pool in enumerate(d.pools):
        if pool.name in names[:number]:
            yield ConfigProblem(
                ("pools", number, "name"), f"{shown(pool.name)} is used twice; give each its own"
            )
        yield from _pool(pool, number)
        yield from _expiry(pool, number, d.join_timeout_sec)
        yield from check_limits(pool, number)
    yield from _sums(d)
    yield from _definitions(d)


def _pool(pool: PoolKeys, number: int) -> Iterator[ConfigProblem]:
    if pool.max is not None and pool.min > pool.max:
        yield ConfigProblem(
            ("pools", number, "min"),
            f"{pool.min} is above max ({pool.max}) of pool {shown(pool.name)}; allowed: 0 to {pool.max}",
        )
    types = [t if isinstance(t, str) else t.name for t in pool.types]
    for key, values in (("types", types), ("zones", pool.zones)):
        for twice in _twice(values):
            yield ConfigProblem(("pools", number, key), f"{shown(twice)} stands twice in it; name each once")
    for name in types if not pool.allow_small else ():
        if name in TOO_SMALL:
            yield ConfigProblem(
                ("pools", number, "types"),
                f"{shown(name)} is too small for workers; use a larger type, "
                f"or set allow_small: true in pool {shown(pool.name)}",
            )
    if "" in pool.zones:
        yield ConfigProblem(("pools", number, "zones"), "holds an empty name; name each zone")


def _expiry(pool: PoolKeys, number: int, join_timeout: int) -> Iterator[ConfigProblem]:
    if pool.expire_after is not None and pool.expire_after <= join_timeout:
        yield ConfigProblem(
            ("pools", number, "expire_after"),
            f"{a_while(pool.expire_after)} is not above join_timeout_sec ({join_timeout}), so a node would "
            f"expire while its replacement may still be joining; allowed: more than {a_while(join_timeout)}",
            ("join_timeout_sec",),
        )


def _budgets(d: Document) -> Iterator[ConfigProblem]:
    places: list[tuple[tuple[str | int, ...], BudgetKeys]] = [
        (("budgets", number), budget) for number, budget in enumerate(d.budgets)
    ]
    for at, pool in enumerate(d.pools):
        places += [(("pools", at, "budgets", number), budget) for number, budget in enumerate(pool.budgets)]
    for path, budget in places:
        if budget.schedule is not None and budget.duration is None:
            yield ConfigProblem(
                (*path, "schedule"), "needs duration; say how long the budget holds, such as 8h"
            )
        for key in ("duration", "zone"):
            if budget.schedule is None and key in budget.model_fields_set:
                says = "is given without schedule; say when it begins, such as 0 9 * * mon-fri"
                yield ConfigProblem((*path, key), says)


def _sums(d: Document) -> Iterator[ConfigProblem]:
    least = sum(pool.min for pool in d.pools)
    if least > d.max_workers:
        yield ConfigProblem(
            ("pools",),
            f"the min of all pools is {least} together, above max_workers ({d.max_workers}); "
            "lower them or raise max_workers",
            ("max_workers",),
        )
    most = [pool.max for pool in d.pools]
    if d.pools and None not in most and sum(m or 0 for m in most) < d.min_workers:
        yield ConfigProblem(
            ("pools",),
            f"the max of all pools is {sum(m or 0 for m in most)} together, below min_workers "
            f"({d.min_workers}); raise them or lower min_workers",
            ("min_workers",),
        )


def _definitions(d: Document) -> Iterator[ConfigProblem]:
    """One name must not mean two types."""
    seen: dict[str, object] = {}
    for number, pool in enumerate(d.pools):
        for built in pool.pool().types:
            if seen.setdefault(built.name, built) != built:
                yield ConfigProblem(
                    ("pools", number, "types"),
                    f"{shown(built.name)} is defined differently in another pool; use one definition or name",
                )


def check_policies(policies: Sequence[PolicyKeys], pools: Sequence[str]) -> Iterator[ConfigProblem]:
    """Of the configuration, or of a file next to it; where no pool is configured, any may be meant."""
    names = [policy.name for policy in policies]
    meant = [policy.policy("", 0, 0, 0) for policy in policies]
    for number, policy in enumerate(meant):
        if policy.name in names[:number]:
            says = f"{shown(policy.name)} is used twice; give each its own"
            yield ConfigProblem(("policies", number, "name"), says)
        for found in check_policy(policy, meant[:number], pools):
            others = ("pools",) if found.path == ("target", "pool") else ()
            yield ConfigProblem(("policies", number, *found.path), found.says, others)


def _twice(values: Iterable[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]


def check_limits(pool: PoolKeys, number: int) -> Iterator[ConfigProblem]:
    """A pool whose limits are below its smallest node could never launch one, and nobody would see why."""
    if pool.limits is None:
        return
    offers = [node_type.allocatable for node_type in pool.pool().types]
    smallest = (
        ("cpu", pool.limits.cpu, min(each.cpu_milli for each in offers), "m CPU"),
        ("memory", pool.limits.memory, min(each.memory_mib for each in offers), " MiB"),
    )
    for key, limit, least, unit in smallest:
        path = ("pools", number, "limits", key)
        if limit is not None and limit < least:
            yield ConfigProblem(
                path,
                f"{limit}{unit} is less than one node of the smallest type of pool {shown(pool.name)} offers "
                f"({least}{unit}), so it could launch none; allowed: at least {least}{unit}",
            )
        elif limit is not None and limit < pool.min * least:
            yield ConfigProblem(
                path,
                f"{limit}{unit} is less than the min of pool {shown(pool.name)} needs: {pool.min} nodes of "
                f"at least {least}{unit}; allowed: at least {pool.min * least}{unit}, or lower min",
            )


def check_headroom(entries: Sequence[HeadroomKeys], pools: Sequence[PoolKeys]) -> Iterator[ConfigProblem]:
    """Names that nothing has, and pods that no node could hold: it would be missing forever. Where no pool
    is configured, names cannot be checked."""
    for number, entry in enumerate(entries if pools else ()):
        path = ("headroom", number)
        named = [pool for pool in pools if entry.pool in ("", pool.name)]
        if not named:
            known = ", ".join(pool.name for pool in pools)
            yield ConfigProblem(
                (*path, "pool"), f"{shown(entry.pool)} is not a pool; allowed: {known}", ("pools",)
            )
            continue
        zones = sorted({zone for pool in named for zone in pool.zones})
        unknown = [zone for zone in entry.zones if zone not in zones]
        if unknown:
            whose = f"of pool {shown(entry.pool)}" if entry.pool else "of any pool"
            says = f"{shown(unknown[0])} is not a zone {whose}; allowed: {', '.join(zones)}"
            yield ConfigProblem((*path, "zones"), says, ("pools",))
            continue
        yield from _too_large(entry, named, path)


def _too_large(
    entry: HeadroomKeys, named: Sequence[PoolKeys], path: tuple[str | int, ...]
) -> Iterator[ConfigProblem]:
    usable = [pool for pool in named if entry.pool or not _repels(pool)]
    usable = [pool for pool in usable if not entry.zones or set(entry.zones) & set(pool.zones)]
    types = [node_type for pool in usable for node_type in pool.pool().types]
    if any(_holds(node_type, entry) for node_type in types):
        return
    asked = f"{entry.cpu}m CPU and {entry.memory} MiB"
    if not types:
        says = f"{asked} fit no node: every pool in these zones has taints; name the pool it is meant for"
        yield ConfigProblem(path, says, ("pools",))
        return
    most = max(types, key=lambda one: (one.allocatable.cpu_milli, one.allocatable.memory_mib))
    offers = f"{most.name} with {most.allocatable.cpu_milli}m CPU and {most.allocatable.memory_mib} MiB"
    yield ConfigProblem(
        path,
        f"no type of {'pool ' + shown(entry.pool) if entry.pool else 'any pool'} can hold a pod of {asked}; "
        f"the largest is {offers}; use smaller pods and a higher count, or add a larger type",
        ("pools",),
    )


def _repels(pool: PoolKeys) -> bool:
    return any(taint.effect != "PreferNoSchedule" for taint in pool.taints)


def _holds(node_type: NodeType, entry: HeadroomKeys) -> bool:
    offer = node_type.allocatable
    return entry.cpu <= offer.cpu_milli and entry.memory <= offer.memory_mib
