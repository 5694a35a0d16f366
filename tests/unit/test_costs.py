from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from ebbtide.core.prices import CostPoint, cost_point, paid, price_of
from ebbtide.model.pod import Resources
from ebbtide.model.pool import NodeType, Pool, Price
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Market, Node, Snapshot

ROOM = Resources(2000, 4096)
SMALL = NodeType("small", ROOM, price=Price(Decimal("0.10"), "EUR", "test"))
SPOTTED = NodeType(
    "spotted",
    ROOM,
    price=Price(Decimal("0.20"), "EUR", "test"),
    spot_price=Price(Decimal("0.05"), "EUR", "test"),
)
DOLLAR = NodeType("dollar", ROOM, price=Price(Decimal("0.30"), "USD", "test"))
SETTINGS = Settings(pools=(Pool("p", (SMALL, SPOTTED, DOLLAR), ("a",)),))


def node(name: str, instance_type: str, pool: str = "p", market: Market = Market.ON_DEMAND) -> Node:
    return Node(name, name, pool=pool, instance_type=instance_type, market=market)


def test_a_worker_costs_what_its_type_costs_in_its_market() -> None:
    assert price_of(node("n", "spotted"), SETTINGS) == SPOTTED.price
    assert price_of(node("n", "spotted", market=Market.SPOT), SETTINGS) == SPOTTED.spot_price


def test_an_unknown_type_or_pool_has_no_price() -> None:
    assert price_of(node("n", "huge"), SETTINGS) is None
    assert price_of(node("n", "small", pool="other"), SETTINGS) is None


def test_money_of_two_currencies_is_kept_apart_and_unknown_prices_are_counted() -> None:
    nodes = (node("a", "small"), node("b", "small"), node("c", "dollar"), node("d", "huge"))
    foreign = Node("e", "e", instance_type="small")
    point = cost_point(Snapshot(7, ClusterView((*nodes, foreign))), SETTINGS)
    both = {"EUR": Decimal("0.20"), "USD": Decimal("0.30")}
    assert point == CostPoint(7, both, 1, workers=4, pending=0, on_demand=both, pools={"p": both})


def test_a_point_says_what_the_workers_would_cost_on_demand_and_claims_no_spot_saving_it_cannot_know() -> (
    None
):
    unlisted = NodeType("unlisted", ROOM, spot_price=Price(Decimal("0.05"), "EUR", "test"))
    abroad = replace(SPOTTED, name="abroad", price=DOLLAR.price)
    pools = Pool("p", (SMALL, SPOTTED, unlisted, abroad), ("a",)), Pool("q", (SMALL,), ("a",))
    nodes = (
        node("a", "spotted", market=Market.SPOT),
        node("b", "small", pool="q"),
        node("c", "unlisted", market=Market.SPOT),
        node("d", "abroad", market=Market.SPOT),
    )
    point = cost_point(Snapshot(7, ClusterView(nodes)), Settings(pools=pools))
    assert point.per_hour == {"EUR": Decimal("0.25")}
    assert point.on_demand == {"EUR": Decimal("0.40")}
    assert point.pools == {"p": {"EUR": Decimal("0.15")}, "q": {"EUR": Decimal("0.10")}}


def test_what_was_paid_is_each_price_for_as_long_as_it_held() -> None:
    points = [
        CostPoint(0, {"EUR": Decimal(1)}),
        CostPoint(3600, {"EUR": Decimal(2)}),
        CostPoint(7200, {"USD": Decimal(9)}),
    ]
    assert paid(points, "EUR", 0, 10800) == Decimal(3)
    assert paid(points, "EUR", 1800, 5400) == Decimal("1.5")
    assert paid(points, "EUR", -3600, 1800) == Decimal("0.5")
    assert paid(points, "EUR", 20000, 30000) == 0
    assert paid([], "EUR", 0, 10) == 0
