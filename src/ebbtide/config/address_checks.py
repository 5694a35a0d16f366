"""Addresses that are spoken to: none of a metadata service, and notifications only where they may go."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

from ebbtide.config.problems import Problem
from ebbtide.config.schema import Document
from ebbtide.outgoing import why_not


def check_addresses(d: Document) -> Iterator[Problem]:
    """What can be said without asking DNS; the rest is refused when it is spoken to."""
    hosts = d.api.notify_hosts
    for path, url, allowed in (
        (("api", "notify_url"), d.api.notify_url, hosts),
        (("metrics", "prometheus_url"), d.metrics.prometheus_url, ()),
        (("aws", "endpoint"), d.aws.endpoint, ()),
        (("aws", "queue_url"), d.aws.queue_url, ()),
        (("hetzner", "endpoint"), d.hetzner.endpoint, ()),
        (("store", "url"), _endpoint_of(d.store.url), ()),
    ):
        if url and (why := why_not(url, allowed)):
            yield Problem(path, f"cannot be used: {why}; give another address", (path[0],))


def _endpoint_of(store_url: str) -> str:
    try:
        parts = urlsplit(store_url)
    except ValueError:
        return ""
    return parse_qs(parts.query).get("endpoint", [""])[0] if parts.scheme == "dynamodb" else ""
