"""From a configuration and its open ports to the site that the API serves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ebbtide.config.api import ApiKeys, TokenKeys, beyond_loopback, webhook_secrets
from ebbtide.engine.observe import observe
from ebbtide.entrypoints.api.scopes import Scope, Token
from ebbtide.entrypoints.api.sight import Sight, nobody_knows
from ebbtide.entrypoints.api.site import Site
from ebbtide.errors import ConfigError

if TYPE_CHECKING:
    from ebbtide.adapters.metrics_export.serving import Health
    from ebbtide.config import Config
    from ebbtide.engine.ports import Ports
    from ebbtide.engine.scale_to_zero.scaling import Scaling


def open_site(
    config: Config,
    ports: Ports,
    listen: str,
    scaling: Scaling | None = None,
    health: Health | None = None,
) -> Site:
    """With the metrics and the health of the same process, if it has any."""
    keys, settings = config.api, config.settings
    well: dict[str, Any] = {}
    if health is not None:
        well = {"metrics": exporter(health), "healthy": health.why_dead, "ready": health.why_not_ready}
    return Site(
        store=ports.store,
        settings=settings,
        sight=Sight(
            lambda: observe(ports, settings),
            ports.clock,
            read_use=ports.uses.read_use if ports.uses is not None else nobody_knows,
        ),
        clock=ports.clock,
        new_id=ports.new_id,
        scaling=scaling,
        tokens=tuple(token_of(each) for each in keys.tokens),
        hosts=keys.hosts,
        open_reading=reads_openly(keys, listen),
        webhook_secrets=webhook_secrets(keys.webhook_secrets_file),
        rate_per_minute=keys.rate_per_minute,
        wakes_per_minute=keys.wakes_per_minute,
        max_holds=keys.max_holds,
        kind=config.cluster_kind,
        **well,
    )


def exporter(health: Health) -> Callable[[], tuple[bytes, str]]:
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    return lambda: (generate_latest(health.metrics.registry), CONTENT_TYPE_LATEST)


def reads_openly(keys: ApiKeys, listen: str) -> bool:
    return keys.open_reading and not keys.tokens and not beyond_loopback(listen)


def token_of(keys: TokenKeys) -> Token:
    expires = None
    if keys.expires:
        try:
            day = datetime.strptime(keys.expires, "%Y-%m-%d").replace(tzinfo=UTC)
        except ValueError as error:
            raise ConfigError(
                f"api.tokens: {keys.expires!r}, when {keys.name!r} expires, is not a day; nothing was "
                "touched. Write it as 2027-01-31."
            ) from error
        expires = int(day.timestamp())
    return Token(keys.name, Scope[keys.scope.upper()], keys.sha256, expires)
