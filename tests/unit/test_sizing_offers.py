"""What is asked of the cloud instead: after "no capacity", and in place of a spot node."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.core.nodes.offers import currencies, next_offer, offer_name, replacement_offer
from ebbtide.core.nodes.sizing import plan_launch
from ebbtide.model.operation import Slot
from ebbtide.model.pod import PodPhase, Resources
from ebbtide.model.pool import Pool
from ebbtide.model.record import CapacityBackoff, Record
from ebbtide.model.snapshot import Market
from tests.builders import (
    NOW,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    make_type,
)

TYPES = (make_type("own"), make_type("dear", price="0.9"), make_type("fair", price="0.3"))


def all_offers(pool: Pool) -> list[str]:
    """Every offer that is tried, each after "no capacity" for all those before."""
    settings = make_settings(pools=(pool,))
    slot: Slot = make_slot(instance_type="own", market=pool.market)
    tried: list[str] = []
    while (offer := next_offer(slot, settings)) is not None:
        tried.append(offer_name(*offer))
        slot = replace(slot, refused=tuple(tried))
    return tried


def test_after_no_capacity_the_other_zones_come_first_then_the_other_types_by_price() -> None:
    assert all_offers(make_pool(types=TYPES)) == [
        "a/on-demand/own",
        "b/on-demand/own",
        "a/on-demand/fair",
        "b/on-demand/fair",
        "a/on-demand/dear",
        "b/on-demand/dear",
    ]


def test_spot_comes_first_where_asked_for_and_on_demand_only_after_a_definite_no() -> None:
    spot_pool = make_pool(types=TYPES[:1], market=Market.SPOT)
    assert all_offers(spot_pool) == ["a/spot/own", "b/spot/own", "a/on-demand/own", "b/on-demand/own"]


def test_a_pool_may_forbid_on_demand_altogether() -> None:
    spot_pool = make_pool(types=TYPES[:1], market=Market.SPOT, on_demand_fallback=False)
    assert all_offers(spot_pool) == ["a/spot/own", "b/spot/own"]


def test_types_of_unknown_price_are_tried_last() -> None:
    pool = make_pool(types=(make_type("own"), make_type("unknown", price=None), TYPES[1]), zones=("a",))
    assert all_offers(pool) == ["a/on-demand/own", "a/on-demand/dear", "a/on-demand/unknown"]


def test_there_is_no_next_offer_for_a_pool_that_is_no_longer_configured() -> None:
    assert next_offer(make_slot(pool="old"), make_settings()) is None


def test_a_replacement_is_like_for_like_in_the_zone_with_the_fewest_workers() -> None:
    pool = make_pool(types=TYPES)
    offer = replacement_offer(
        make_snapshot(make_nodes("a1", "a2", "b1")), make_record(), make_settings(), pool, "dear"
    )
    assert (offer.node_type.name, offer.zone) == ("dear", "b")


def test_a_replacement_of_a_type_that_is_no_longer_offered_takes_the_first_one_of_the_pool() -> None:
    offer = replacement_offer(
        make_snapshot(), make_record(), make_settings(), make_pool(types=TYPES), "retired"
    )
    assert (offer.node_type.name, offer.zone) == ("own", "a")


def test_an_offer_that_had_no_capacity_lately_is_chosen_only_where_nothing_else_will_do() -> None:
    waiting = make_pod("web", phase=PodPhase.PENDING, requests=Resources(500, 512))
    snapshot = make_snapshot(make_nodes("b1", allocatable=Resources(0, 0)), [waiting])
    pools = (make_pool(zones=("a", "b")),)
    settings = make_settings(pools=pools)
    name = pools[0].types[0].name
    one = make_record(offer_rests=(CapacityBackoff(f"a/on-demand/{name}", NOW + 60),))
    both = make_record(
        offer_rests=(*one.offer_rests, CapacityBackoff(f"b/on-demand/{name}", NOW + 60)),
    )
    assert plan_launch(snapshot, make_record(), settings, 0).offers[0].zone == "a"
    assert plan_launch(snapshot, one, settings, 0).offers[0].zone == "b"
    assert plan_launch(snapshot, both, settings, 0).offers[0].zone == "a"
    assert plan_launch(snapshot, one, settings, 1).offers[0].zone == "b"
    assert replacement_offer(snapshot, make_record(), settings, pools[0], name).zone == "a"
    assert replacement_offer(snapshot, one, settings, pools[0], name).zone == "b"


def test_a_replacement_is_on_demand_where_no_zone_has_spot_capacity_and_the_pool_falls_back() -> None:
    pool = make_pool(types=(make_type("own", spot_price="0.01"),), market=Market.SPOT)
    settings, snapshot = make_settings(pools=(pool,)), make_snapshot(make_nodes("a1", "a2", "b1"))
    in_b = CapacityBackoff("b/spot/own", NOW + 60)
    one = make_record(offer_rests=(in_b,))
    both = make_record(offer_rests=(in_b, CapacityBackoff("a/spot/own", NOW + 60)))
    asked = make_scale_up(make_slot(refused=("a/spot/own", "b/spot/own")))

    def place(record: Record, pool: Pool = pool) -> tuple[str, Market]:
        offer = replacement_offer(snapshot, record, settings, pool, "own")
        return offer.zone, offer.market

    assert place(make_record()) == ("b", Market.SPOT)
    assert place(one) == ("a", Market.SPOT), "another zone has spot capacity"
    assert place(both) == ("b", Market.ON_DEMAND)
    assert place(make_record(operation=asked)) == ("b", Market.ON_DEMAND), "told to a launch in progress"
    assert place(both, replace(pool, on_demand_fallback=False)) == ("b", Market.SPOT)


def test_prices_of_two_currencies_are_never_compared() -> None:
    euro, yen = make_type("euro", price="0.9"), make_type("yen", price="0.1")
    assert yen.price is not None
    yen = replace(yen, price=replace(yen.price, currency="JPY"))
    pods = [make_pod("web", 1000, phase=PodPhase.PENDING)]
    for types, chosen in (((euro, yen), "euro"), ((yen, euro), "yen")):
        settings = make_settings(pools=(make_pool(types=types),))
        plan = plan_launch(make_snapshot((), pods), make_record(), settings, 1)
        assert [offer.node_type.name for offer in plan.offers] == [chosen]
    assert currencies((make_pool(types=(yen, euro)),)) == ("JPY", "EUR")
