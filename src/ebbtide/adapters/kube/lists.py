"""Lists in pages, all of one moment. A list that cannot be read to its end is an error, never a list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from ebbtide import typed
from ebbtide.adapters.kube.connection import JSON, Connection, Query
from ebbtide.adapters.kube.errors import GONE, Refused, refused_reading
from ebbtide.adapters.kube.wire import Struct, WireBudget, WireClaim, WireNode, WirePod, WireVolume
from ebbtide.errors import UNREADABLE, Retryable

PAGE = 500
FRESH_STARTS = 3
"""How often a list is begun again when its moment is no longer kept by the server."""

Item = TypeVar("Item")
Wire = TypeVar("Wire")


class ListMeta(Struct, frozen=True):
    resource_version: str = ""
    next: str = msgspec.field(default="", name="continue")


class Page(Struct, Generic[Wire], frozen=True):
    metadata: ListMeta
    items: list[Wire] | None = None


@dataclass(frozen=True, slots=True)
class Resource(Generic[Wire]):
    what: str
    path: str
    wire: type[Wire]
    accept: str = JSON
    """The form in which the server should answer."""


NODES = Resource("nodes", "/api/v1/nodes", WireNode)
PODS = Resource("pods", "/api/v1/pods", WirePod)
BUDGETS = Resource("disruption budgets", "/apis/policy/v1/poddisruptionbudgets", WireBudget)
CLAIMS = Resource("volume claims", "/api/v1/persistentvolumeclaims", WireClaim)
VOLUMES = Resource("volumes", "/api/v1/persistentvolumes", WireVolume)


def read_list(
    connection: Connection,
    resource: Resource[Wire],
    read: Callable[[Wire], Item],
    query: Query | None = None,
) -> tuple[list[Item], str]:
    """All items, and the moment (resource version) that they are of."""
    decoder = typed.decoder(Page[resource.wire])  # type: ignore[name-defined]
    for _ in range(FRESH_STARTS):
        try:
            return _read_pages(connection, resource, decoder, read, dict(query or {}))
        except Refused as refused:
            if refused.code != GONE:
                raise refused_reading(refused, resource.what, connection.server) from refused
    raise Retryable(f"{resource.what} change faster than {connection.server} lets them be listed")


def _read_pages(
    connection: Connection,
    resource: Resource[Wire],
    decoder: typed.Decoder[Page[Wire]],
    read: Callable[[Wire], Item],
    query: dict[str, str | int],
) -> tuple[list[Item], str]:
    found: list[Item] = []
    query["limit"] = PAGE
    while True:
        body = connection.try_get(resource.path, resource.what, query, resource.accept)
        try:
            page = decoder.decode(body)
            found.extend(map(read, page.items or ()))
        except (*UNREADABLE, ValueError) as cause:
            says = f"{connection.server} answered something that is no list of {resource.what} ({cause})"
            raise Retryable(says) from cause
        if not page.metadata.next:
            return found, page.metadata.resource_version
        query["continue"] = page.metadata.next
