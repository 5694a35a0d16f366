"""The only place where adapters are chosen: from a checked configuration to the ports the engine uses.

The simulator stands above this module, so whoever wants a simulated cluster hands its opener in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

from ebbtide.bootstrap.kubernetes import close_doors, open_kubernetes
from ebbtide.bootstrap.parts import LineNotifier, SystemClock, TimeOrderedIds, World
from ebbtide.config import Config
from ebbtide.engine.observers import Observers
from ebbtide.engine.outside import Outside
from ebbtide.errors import ConfigError
from ebbtide.ports import Store

__all__ = [
    "LineNotifier",
    "OpenWorld",
    "SystemClock",
    "TimeOrderedIds",
    "World",
    "assemble",
    "build",
    "close_doors",
    "open_kubernetes",
    "open_store",
    "with_tables",
]

OpenWorld = Callable[[Config], World]


def build(
    config: Config, open_simulated: OpenWorld | None = None, watching: bool = False, asking: bool = False
) -> Outside:
    """Nothing outside is asked before the store is known to be usable, except with `asking`: then the API
    server must answer first, so that a mistake in its address leaves no store behind."""
    if config.cluster_kind == "kubernetes":
        world = open_kubernetes(config, watching, asking)
        try:
            return assemble(config, open_store(config), world)
        except BaseException:
            close_doors(world)
            raise
    if open_simulated is None:
        raise ConfigError(
            f"a cluster of kind {config.cluster_kind!r} cannot be reached from here; nothing was touched. "
            "Set cluster.kind to a kind that this entry point knows."
        )
    store = open_store(config)
    return assemble(config, store, open_simulated(config))


def assemble(config: Config, store: Store, world: World) -> Outside:
    return Outside(
        store=store,
        cluster=world.cluster,
        cloud=world.cloud,
        metrics=world.metrics,
        inbox=world.inbox,
        notifier=LineNotifier(sys.stderr, as_json=config.log_format == "json"),
        clock=world.clock,
        new_id=TimeOrderedIds(),
        observer=Observers(*world.observers),
        workloads=world.workloads,
        signals=world.signals,
        players=world.players,
    )


def open_store(config: Config) -> Store:
    if config.store_url.startswith("dynamodb"):
        from ebbtide.adapters.stores.dynamodb import DynamoStore

        settings = config.settings
        return DynamoStore.open(
            with_tables(config), SystemClock(), settings.cluster, settings.log_retention_days
        )
    from ebbtide.adapters.stores.sql import SqlStore

    return SqlStore.open(config.store_url, SystemClock(), config.settings.cluster)


def with_tables(config: Config) -> str:
    """The URL with the tables of `state_table` and `logs_table` where it names none itself."""
    parts = urlsplit(config.store_url)
    state, logs = parts.netloc or config.state_table, parts.path.strip("/") or config.logs_table
    return urlunsplit((parts.scheme, state, f"/{logs}", parts.query, ""))
