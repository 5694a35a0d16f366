"""What a target costs while it is up, and what is really saved while it is not."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from ebbtide.core.scale_to_zero.rates import (
    Rates,
    empty_room_price,
    owner_of,
    rate_of,
    realised_share,
    with_realised,
)
from ebbtide.model.idle import Phase, Rate
from ebbtide.model.pod import NOTHING, Resources, WorkloadKind, WorkloadRef
from ebbtide.model.policy import Target
from ebbtide.model.pool import Price
from ebbtide.model.snapshot import ClusterView, Market
from tests.builders import make_node, make_pod, make_pool, make_type
from tests.policy_harness import make_policy, make_ref, make_state, make_workload

POOL = make_pool()
"""One type: 4 CPUs and 8 GiB for 0.05."""


def view_of(*pods: str, **node: object) -> ClusterView:
    placed = [make_pod(name, 1000, 1024, node_name="a1") for name in pods]
    return ClusterView((make_node("a1", **node),), tuple(placed))


def test_what_the_policy_says_counts() -> None:
    policy = make_policy(hourly_cost=Decimal("1.25"), currency="USD")
    assert rate_of(policy, [], Rates((POOL,))) == Rate(Decimal("1.25"), "USD", "the policy")


def test_a_workload_costs_its_share_of_the_nodes_it_runs_on() -> None:
    big = make_pool("big", types=(make_type("huge", 8000, 4096, price="0.80"),))
    view = ClusterView(
        (make_node("a1"), make_node("a2", pool="big", instance_type="huge")),
        (make_pod("web-x-1", node_name="a1"), make_pod("web-x-2", node_name="a2")),
    )
    found = rate_of(make_policy(), [make_workload(replicas=2)], Rates((POOL, big), view))
    assert found is not None
    # a quarter of the CPU of one, a quarter of the memory of the other
    assert found.per_hour == Decimal("0.05") / 4 + Decimal("0.80") / 4
    assert found.source == "its share of huge at 0.80 (test); its share of small at 0.05 (test)"
    # The order in which its pods are listed changes nothing: each change closes a stretch of the ledger.
    turned = ClusterView(view.nodes, view.pods[::-1])
    assert rate_of(make_policy(), [make_workload(replicas=2)], Rates((POOL, big), turned)) == found


def test_nodes_that_are_paid_in_two_currencies_have_no_common_price() -> None:
    huge = replace(make_type("huge"), price=Price(Decimal("0.80"), "USD", "test"))
    dollars = make_pool("big", types=(huge,))
    view = ClusterView(
        (make_node("a1"), make_node("a2", pool="big", instance_type="huge")),
        (make_pod("web-x-1", node_name="a1"), make_pod("web-x-2", node_name="a2")),
    )
    assert rate_of(make_policy(), [make_workload(replicas=2)], Rates((POOL, dollars), view)) is None


def test_where_its_pods_are_not_seen_the_cheapest_type_counts() -> None:
    expensive = make_pool("dear", types=(make_type("dear", price="9"), make_type("unknown", price=None)))
    found = rate_of(make_policy(), [make_workload(replicas=2)], Rates((expensive, POOL)))
    assert found is not None
    assert found.per_hour == Decimal("0.025")


def test_a_price_that_is_not_known_stays_unknown() -> None:
    unknown = make_pool(types=(make_type(price=None),))
    up = [make_workload(replicas=2)]
    assert rate_of(make_policy(), up, Rates((unknown,))) is None
    assert rate_of(make_policy(), up, Rates(())) is None
    assert rate_of(make_policy(), [make_workload(requests=NOTHING)], Rates((POOL,))) is None
    assert rate_of(make_policy(), [make_workload(requests=Resources(9000, 1))], Rates((POOL,))) is None
    assert rate_of(make_policy(), [make_workload(replicas=0)], Rates((POOL,))) is None


def test_a_workload_that_asks_for_nothing_has_no_price_on_the_nodes_it_runs_on() -> None:
    up = [make_workload(requests=NOTHING)]
    assert rate_of(make_policy(), up, Rates((POOL,), view_of("web-x-1"))) is None


def test_a_node_that_offers_nothing_has_no_shares() -> None:
    odd = make_pool(types=(make_type(cpu_milli=0),))
    assert rate_of(make_policy(), [make_workload()], Rates((odd,))) is None


def test_a_node_of_another_pool_or_type_falls_back_to_the_cheapest() -> None:
    for node in ({"pool": "other"}, {"instance_type": "other"}):
        found = rate_of(
            make_policy(), [make_workload(replicas=1)], Rates((POOL,), view_of("web-x-1", **node))
        )
        assert found is not None
        assert found.per_hour == Decimal("0.0125")


def test_a_group_costs_its_sum_unless_currencies_differ() -> None:
    policy = make_policy("pair", make_ref("web"), make_ref("api"))
    both = [make_workload("web", 1), make_workload("api", 1)]
    found = rate_of(policy, both, Rates((POOL,)))
    assert found is not None
    assert found.per_hour == Decimal("0.025")
    dollars = Rate(Decimal(1), "USD", "x")
    assert realised_share([make_state(Phase.ZERO, rate=dollars)], {})["USD"] == 1


def test_a_group_in_two_currencies_has_no_price() -> None:
    from dataclasses import replace

    price = make_type("usd", price="0.01").price
    assert price is not None
    usd = replace(make_type("usd"), price=replace(price, currency="USD"))
    view = ClusterView(
        (make_node("a1"), make_node("a2", pool="usd", instance_type="usd")),
        (make_pod("web-x-1", node_name="a1"), make_pod("api-x-2", node_name="a2")),
    )
    policy = make_policy("pair", make_ref("web"), make_ref("api"))
    both = [make_workload("web", 1), make_workload("api", 1)]
    assert rate_of(policy, both, Rates((POOL, make_pool("usd", types=(usd,))), view)) is None


def test_a_pool_costs_its_nodes() -> None:
    policy = make_policy(target=Target(pool="workers"))
    view = ClusterView((make_node("a1"), make_node("b1"), make_node("c1", pool="other")))
    found = rate_of(policy, [], Rates((POOL,), view))
    assert found is not None
    assert found.per_hour == Decimal("0.10")
    assert rate_of(policy, [], Rates((POOL,))) is None
    assert rate_of(policy, [], Rates((POOL,), ClusterView())) is None
    assert rate_of(policy, [], Rates((POOL,), ClusterView((make_node(instance_type="odd"),)))) is None


def test_a_spot_node_has_its_spot_price() -> None:
    spot = make_pool(types=(make_type(spot_price="0.01"),))
    view = ClusterView((make_node("a1", market=Market.SPOT),))
    found = rate_of(make_policy(target=Target(pool="workers")), [], Rates((spot,), view))
    assert found is not None
    assert found.per_hour == Decimal("0.01")


def test_pods_are_known_by_the_names_that_kubernetes_gives() -> None:
    deployment, stateful = WorkloadKind.DEPLOYMENT, WorkloadKind.STATEFUL_SET
    assert owner_of(make_pod("my-app-7d9f-x2")) == WorkloadRef(deployment, "default", "my-app")
    assert owner_of(make_pod("web-7")) == make_ref("web")
    assert owner_of(make_pod("db-0", controller="StatefulSet")) == WorkloadRef(stateful, "default", "db")
    assert owner_of(make_pod("job-1", controller="Job")) is None


def test_pods_that_end_or_whose_node_is_gone_do_not_count() -> None:
    view = ClusterView(
        (make_node("a1"),),
        (make_pod("web-x-1", node_name="gone"), make_pod("web-x-2", node_name="a1", terminating=True)),
    )
    assert Rates((POOL,), view).placed == {}


def test_empty_room_is_still_paid() -> None:
    """A quarter of the CPU and an eighth of the memory are asked for: seven eighths stand empty."""
    room = empty_room_price(view_of("web-x-1"), (POOL,))
    assert room == {"EUR": Decimal("0.05") * 7 / 8}
    assert empty_room_price(view_of(instance_type="odd"), (POOL,)) == {}
    assert empty_room_price(view_of("a", "b", "c", "d", allocatable=Resources(4000, 0)), (POOL,)) == {
        "EUR": 0
    }


def test_what_is_realised_is_shared_by_price() -> None:
    sleeping = [
        make_state(Phase.ZERO, rate=Rate(Decimal("0.03"), "EUR", "x")),
        make_state(Phase.ZERO, rate=Rate(Decimal("0.01"), "EUR", "x")),
        make_state(Phase.ZERO),
    ]
    shares = realised_share(sleeping, {"EUR": Decimal("0.01")})
    assert shares == {"EUR": Decimal("0.75")}
    found = with_realised(sleeping[0].rate, shares)
    assert found is not None
    assert found.realised_per_hour == Decimal("0.0225")
    assert realised_share(sleeping, {"EUR": Decimal(9)}) == {"EUR": 0}


def test_without_a_price_nothing_is_realised() -> None:
    assert with_realised(None, {}) is None
    free = make_state(Phase.ZERO, rate=Rate(Decimal(0), "EUR", "x"))
    assert realised_share([free], {}) == {"EUR": 0}
