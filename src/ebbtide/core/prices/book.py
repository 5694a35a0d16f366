"""The price book: what a node of a type costs an hour, from whom that is known, and since when.

Books are laid over each other: the built-in list, then the price file (which `ebbtide prices update` fills
from the cloud), then what a pool says of its types. A price that no book has is unknown, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ebbtide.core.prices.catalogue import CATALOGUE
from ebbtide.model.money import Price
from ebbtide.model.node import Market
from ebbtide.model.pool import NodeType, Pool

Prices = Mapping[tuple[str, Market], Price]


@dataclass(frozen=True, slots=True)
class PriceBook:
    prices: Prices = field(default_factory=dict)

    def price(self, type_name: str, market: Market = Market.ON_DEMAND) -> Price | None:
        return self.prices.get((type_name, market))

    def under(self, above: PriceBook) -> PriceBook:
        """This book with another laid over it, whose prices win."""
        return PriceBook({**self.prices, **above.prices})

    def priced(self, node_type: NodeType) -> NodeType:
        """The type with the book's prices where it has none of its own."""
        return replace(
            node_type,
            price=node_type.price or self.price(node_type.name),
            spot_price=node_type.spot_price or self.price(node_type.name, Market.SPOT),
        )

    def priced_pool(self, pool: Pool) -> Pool:
        return replace(pool, types=tuple(self.priced(node_type) for node_type in pool.types))


def built_in_book() -> PriceBook:
    types = CATALOGUE.values()
    return PriceBook({(t.name, Market.ON_DEMAND): t.price for t in types if t.price is not None})


def book_of_pools(pools: Iterable[Pool]) -> PriceBook:
    """What the pools themselves say of their types."""
    return PriceBook(
        {
            (node_type.name, market): price
            for pool in pools
            for node_type in pool.types
            for market in Market
            if (price := node_type.price_in(market)) is not None
        }
    )
