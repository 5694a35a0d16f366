"""Pools as they are written down, and what is refused about them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.core.prices import CATALOGUE
from ebbtide.errors import ConfigError
from ebbtide.model.pod import Resources, Taint, TaintEffect
from ebbtide.model.pool import NodeType, Pool, Price
from ebbtide.model.snapshot import Market


def pools(text: str) -> tuple[Pool, ...]:
    return build_config(parse_document(text, "ebbtide.yaml"), {}).settings.pools


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        pools(text)
    return str(caught.value)


def test_a_pool_holds_built_in_and_inline_types() -> None:
    (pool,) = pools(
        """
        pools:
          - name: batch
            types:
              - cpx22
              - {name: big, cpu: 3500m, memory: 16GB, pods: 58, price: 0.145, spot_price: "0.058",
                 currency: USD, price_as_of: 2026-11-01}
            zones: [a, no]
            market: spot
            on_demand_fallback: false
            min: 1
            max: 4
            labels: {tier: batch, app: x}
            taints: [{key: tier, value: batch, effect: NoSchedule}]
        """
    )
    assert len(pool.launch_hash) == 16
    assert replace(pool, launch_hash="") == Pool(
        name="batch",
        types=(
            CATALOGUE["cpx22"],
            NodeType(
                name="big",
                allocatable=Resources(cpu_milli=3500, memory_mib=15258),
                max_pods=58,
                price=Price(Decimal("0.145"), "USD", "configuration", "2026-11-01"),
                spot_price=Price(Decimal("0.058"), "USD", "configuration", "2026-11-01"),
            ),
        ),
        zones=("a", "no"),
        market=Market.SPOT,
        on_demand_fallback=False,
        min_workers=1,
        max_workers=4,
        labels=(("app", "x"), ("tier", "batch")),
        taints=(Taint("tier", TaintEffect.NO_SCHEDULE, "batch"),),
    )


def test_a_price_that_is_left_out_is_unknown() -> None:
    (pool,) = pools("pools: [{name: a, types: [{name: t, cpu: 2, memory: 4Gi}], zones: [z]}]")
    assert pool.types[0].price is None
    assert pool.types[0].allocatable == Resources(cpu_milli=2000, memory_mib=4096)


@pytest.mark.parametrize(
    ("name", "cpus", "gib", "price"),
    [
        ("cpx12", 1, 2, "0.0048"),
        ("cpx22", 2, 4, "0.0096"),
        ("cpx32", 4, 8, "0.0168"),
        ("cpx42", 8, 16, "0.0312"),
        ("cpx52", 12, 24, "0.0624"),
        ("cpx62", 16, 32, "0.1056"),
    ],
)
def test_the_built_in_list_has_the_prices_of_the_contract(name: str, cpus: int, gib: int, price: str) -> None:
    found = CATALOGUE[name]
    assert found.allocatable == Resources(cpu_milli=cpus * 1000, memory_mib=gib * 1024)
    assert found.price is not None
    assert (found.price.per_hour, found.price.currency) == (Decimal(price), "EUR")
    assert found.price.source == "Ebbtide built-in list"
    assert found.price.as_of


@pytest.mark.parametrize(
    ("pool", "says"),
    [
        ("{name: a, types: [], zones: [z]}", "pools[0].types: is empty; allowed: cpx12"),
        ("{name: a, zones: [z]}", "pools[0].types: is missing; allowed: cpx12"),
        ("{name: a, types: [cpx22]}", "pools[0].zones: is missing; allowed: a list of names"),
        ("{name: a, types: [cpx22], zones: []}", "pools[0].zones: is empty; allowed: a list of names"),
        ("{name: a, types: [cpx22], zones: ['']}", "pools[0].zones: holds an empty name"),
        ("{types: [cpx22], zones: [z]}", "pools[0].name: is missing"),
        ("{name: A B, types: [cpx22], zones: [z]}", '"A B" is not allowed; allowed: lower-case letters'),
        ("{name: a, types: [cpx23], zones: [z]}", 'types[0]: "cpx23" is not a built-in type; allowed: cpx12'),
        ("{name: a, types: [7], zones: [z]}", "types[0]: 7 is not allowed; allowed: a built-in name, or"),
        ("{name: a, types: [cpx22, cpx22], zones: [z]}", '"cpx22" stands twice in it'),
        ("{name: a, types: [cpx22], zones: [z, z]}", 'zones: "z" stands twice in it'),
        ("{name: a, types: [cpx22], zones: [z], min: 3, max: 2}", 'min: 3 is above max (2) of pool "a"'),
        ("{name: a, types: [cpx22], zones: [z], min: -1}", "min: -1 is not allowed; allowed: a whole number"),
        ("{name: a, types: [cpx22], zones: [z], market: dear}", '"dear" is not allowed; allowed: on-demand'),
        ("{name: a, types: [cpx22], zones: [z], mrket: spot}", "mrket: unknown key; did you mean market?"),
        ("{name: a, types: [cpx22], zones: [z], labels: {a: 1}}", "labels.a: 1 is not allowed"),
        ("{name: a, types: [cpx22], zones: [z], taints: [x]}", "the keys key, value, effect"),
        ("{name: a, types: [cpx22], zones: [z], max: 1}", "is 1 together, below min_workers (2)"),
        ("{name: a, types: [cpx22], zones: [z], min: 11}", "is 11 together, above max_workers (10)"),
        ("nonsense", 'pools[0]: "nonsense" is not allowed; allowed: the keys name, types, zones'),
    ],
)
def test_a_wrong_pool_is_refused(pool: str, says: str) -> None:
    assert says in refusal(f"pools: [{pool}]")


@pytest.mark.parametrize(
    ("definition", "says"),
    [
        ("cpu: four, memory: 4Gi", 'cpu: "four" is not an amount of CPU; allowed: 4, 3.5 or 3500m'),
        ("cpu: true, memory: 4Gi", "cpu: true is not an amount of CPU"),
        ("cpu: 0, memory: 4Gi", "cpu: 0 is not a usable amount of CPU"),
        ("cpu: 2, memory: 8", "memory: 8 is not an amount of memory with its unit; allowed: 8Gi"),
        ("cpu: 2, memory: 0Gi", 'memory: "0Gi" is not a usable amount of memory'),
        ("cpu: 2, memory: 4Gi, price: 0", "price: 0 is not a price per hour; allowed: a number above 0"),
        ("cpu: 2, memory: 4Gi, price: cheap", 'price: "cheap" is not a price per hour'),
        ("cpu: 2, memory: 4Gi, currency: eur", 'currency: "eur" is not allowed; allowed: three capital'),
        ("cpu: 2, memory: 4Gi, price_as_of: may", 'price_as_of: "may" is not allowed; allowed: a day'),
        ("cpu: 2", "memory: is missing; allowed: 8Gi, 7600Mi or 8GB"),
    ],
)
def test_a_wrong_type_definition_is_refused(definition: str, says: str) -> None:
    assert says in refusal(f"pools: [{{name: a, types: [{{name: t, {definition}}}], zones: [z]}}]")


def test_two_pools_of_one_name_are_refused() -> None:
    entry = "{name: a, types: [cpx22], zones: [z]}"
    assert 'pools[1].name: "a" is used twice' in refusal(f"pools: [{entry}, {entry}]")


def test_one_type_name_must_not_mean_two_things() -> None:
    said = refusal(
        "pools: [{name: a, types: [cpx22], zones: [z]},"
        " {name: b, types: [{name: cpx22, cpu: 1, memory: 1Gi}], zones: [z]}]"
    )
    assert 'pools[1].types: "cpx22" is defined differently in another pool' in said


def test_an_empty_list_of_pools_is_refused() -> None:
    assert "pools: is empty; give at least one pool" in refusal("pools: []")


def test_entries_that_are_all_wrong_are_not_also_called_empty() -> None:
    assert "is empty" not in refusal("pools: [{name: a, types: [cpx23], zones: [z]}]")
