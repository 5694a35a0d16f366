"""The only place where adapters are chosen: from a checked configuration to the ports the engine uses.

The simulator stands above this module, so the caller passes in the function that opens a simulated cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

from ebbtide.bootstrap.kubernetes import close_ports, needing, open_kubernetes
from ebbtide.bootstrap.parts import LineNotifier, SystemClock, TimeOrderedIds
from ebbtide.config import Config
from ebbtide.config.api import webhook_secrets
from ebbtide.core.packing.pack import HOW_TO_PACK, why_missing
from ebbtide.engine.notes import CostNotes
from ebbtide.engine.outages import OutageNotes
from ebbtide.engine.ports import ClusterPorts, Observers, Ports
from ebbtide.errors import ConfigError, SolverMissing
from ebbtide.model.settings import Settings
from ebbtide.ports import Notifier, Store

__all__ = [
    "ClusterPorts",
    "LineNotifier",
    "OpenWorld",
    "SystemClock",
    "TimeOrderedIds",
    "assemble",
    "build",
    "close_ports",
    "open_kubernetes",
    "open_notifier",
    "open_store",
    "with_tables",
]

OpenWorld = Callable[[Config], ClusterPorts]


def build(
    config: Config, open_simulated: OpenWorld | None = None, watching: bool = False, asking: bool = False
) -> Ports:
    """Nothing outside is asked before the store is known to be usable, except with `asking`: then the API
    server must answer first, so a mistake in its address leaves no store behind."""
    refuse_without_packer(config.settings)
    if config.cluster_kind == "kubernetes":
        world = open_kubernetes(config, watching, asking)
        try:
            return assemble(config, open_store(config), world)
        except BaseException:
            close_ports(world)
            raise
    if open_simulated is None:
        raise ConfigError(
            f"a cluster of kind {config.cluster_kind!r} cannot be reached from here; nothing was touched. "
            "Set cluster.kind to a kind that this entry point knows."
        )
    store = open_store(config)
    return assemble(config, store, open_simulated(config))


def refuse_without_packer(settings: Settings) -> None:
    """A solver that is missing is an error at start-up: later it would change what is decided."""
    why = why_missing(settings.packer)
    if why:
        raise SolverMissing(f"{why}; nothing was touched. {HOW_TO_PACK}")


def assemble(config: Config, store: Store, world: ClusterPorts) -> Ports:
    new_id = TimeOrderedIds()
    return Ports(
        store=store,
        cluster=world.cluster,
        cloud=world.cloud,
        metrics=world.metrics,
        inbox=world.inbox,
        notifier=open_notifier(config),
        clock=world.clock,
        new_id=new_id,
        observer=Observers(
            *world.observers,
            CostNotes(store, config.settings, new_id),
            OutageNotes(store, config.settings, world.clock, new_id),
        ),
        workloads=world.workloads,
        signals=world.signals,
        players=world.players,
        uses=world.uses,
        urgencies=world.urgencies,
        arrived_at=world.arrived_at,
        launches_at_once=world.launches_at_once,
        services=world.services,
        declarations=world.declarations,
    )


def open_notifier(config: Config) -> Notifier:
    """Lines on stderr; and signed messages, where somebody wants them."""
    lines = LineNotifier(sys.stderr, as_json=config.log_format == "json")
    if not config.api.notify_url:
        return lines
    with needing("api"):
        from ebbtide.adapters.webhooks import WebhookNotifier
    secrets = webhook_secrets(config.api.webhook_secrets_file)
    if not secrets:
        raise ConfigError(
            f"there is no secret in {config.api.webhook_secrets_file}, and notifications are signed; nothing "
            "was touched. Write one into it, or leave api.notify_url empty."
        )
    return WebhookNotifier(lines, config.api.notify_url, secrets[0])


def place_of_store(config: Config) -> str:
    """The same for two configurations that name one store in two ways."""
    if config.store_url.startswith("dynamodb"):
        return with_tables(config)
    from ebbtide.adapters.stores.sql.engine import place_of

    return place_of(config.store_url)


def open_store(config: Config) -> Store:
    if config.store_url.startswith("dynamodb"):
        from ebbtide.adapters.stores.dynamodb.store import DynamoStore

        settings = config.settings
        return DynamoStore.open(
            with_tables(config), SystemClock(), settings.cluster, settings.log_retention_days
        )
    from ebbtide.adapters.stores.sql.store import SqlStore

    return SqlStore.open(config.store_url, SystemClock(), config.settings.cluster)


def with_tables(config: Config) -> str:
    """The URL with the tables of `state_table` and `logs_table` where it names none itself."""
    parts = urlsplit(config.store_url)
    state, logs = parts.netloc or config.state_table, parts.path.strip("/") or config.logs_table
    return urlunsplit((parts.scheme, state, f"/{logs}", parts.query, ""))
