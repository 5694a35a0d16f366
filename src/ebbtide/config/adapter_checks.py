"""What reaches out: which sections belong together (a simulated cluster needs none, a real one those of its
cloud), who may listen where, and which addresses may be contacted."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

from ebbtide.config.api import ApiKeys, beyond_loopback
from ebbtide.config.join_checks import check_join
from ebbtide.config.problems import Problem, shown
from ebbtide.config.schema import Document
from ebbtide.config.section import Section
from ebbtide.outgoing import why_not

COMMON = frozenset({"region", "endpoint"})
"""Keys whose variables other programs set as well: they alone do not make a section."""
OF_REAL = ("join", "aws", "hetzner", "metrics")


def check_adapters(d: Document) -> Iterator[Problem]:
    if d.cluster.kind == "simulator":
        yield from _simulated(d)
        return
    if d.cloud.kind is None:
        yield Problem(
            ("cloud", "kind"),
            "is missing, and a cluster of kind kubernetes needs a cloud; allowed: aws or hetzner",
            ("cluster",),
        )
    if "pools" not in d.model_fields_set:
        yield Problem(
            ("pools",),
            "is missing, and a cluster of kind kubernetes needs at least one; give a name, types and zones",
            ("cluster",),
        )
    if d.cloud.kind == "aws":
        yield from _aws(d)
    if d.cloud.kind == "hetzner":
        yield from _hetzner(d)
    yield from check_join(d)
    yield from _metrics(d)


def _simulated(d: Document) -> Iterator[Problem]:
    for key in ("kubeconfig", "context"):
        if getattr(d.cluster, key):
            yield _misplaced(("cluster", key), "cluster.kind is simulator")
    if d.cloud.kind is not None:
        yield _misplaced(("cloud", "kind"), "cluster.kind is simulator")
    for name in OF_REAL:
        if _used(getattr(d, name)):
            yield _misplaced((name,), "cluster.kind is simulator")


def _aws(d: Document) -> Iterator[Problem]:
    if _used(d.hetzner):
        yield _misplaced(("hetzner",), "cloud.kind is aws")
    if not (d.aws.image or d.aws.launch_template):
        yield Problem(
            ("aws", "image"),
            "is missing, and EC2 needs it or launch_template; allowed: the id of an AMI",
            ("cloud", "cluster"),
        )
    for number, pool in enumerate(d.pools if d.aws.subnets else ()):
        for zone in pool.zones:
            if zone not in d.aws.subnets:
                says = f"{shown(zone)} has no subnet in aws.subnets; add it there or leave out the zone"
                yield Problem(("pools", number, "zones"), says, ("aws", "cloud", "cluster"))


def _hetzner(d: Document) -> Iterator[Problem]:
    if _used(d.aws):
        yield _misplaced(("aws",), "cloud.kind is hetzner")
    if not d.hetzner.image:
        yield Problem(
            ("hetzner", "image"),
            "is missing; allowed: the name of an image, or the id of a snapshot in quotes",
            ("cloud", "cluster"),
        )
    for number, pool in enumerate(d.pools):
        if pool.market == "spot":
            yield Problem(
                ("pools", number, "market"),
                '"spot" is not allowed with cloud.kind hetzner, which has no spot market; allowed: on-demand',
                ("cloud", "cluster"),
            )


def _metrics(d: Document) -> Iterator[Problem]:
    for key in ("query", "token_file"):
        if getattr(d.metrics, key) and not d.metrics.prometheus_url:
            says = "needs metrics.prometheus_url, which is missing; give it or leave this out"
            yield Problem(("metrics", key), says, ("cluster",))


def _used(section: Section) -> bool:
    return bool(section.model_fields_set - COMMON)


def _misplaced(path: tuple[str, ...], why: str) -> Problem:
    return Problem(path, f"is given, but {why}; leave it out or change that", ("cluster", "cloud"))


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


def check_api(keys: ApiKeys) -> Iterator[Problem]:
    if keys.listen != "off" and beyond_loopback(keys.listen) and not keys.tokens:
        says = (
            f"{keys.listen} can be reached from other machines, and api.tokens is empty; make a token with "
            "`ebbtide token new`, or listen on 127.0.0.1"
        )
        yield Problem(("api", "listen"), says, ("api",))
    if keys.notify_url and not keys.webhook_secrets_file:
        says = (
            "notifications are signed, and api.webhook_secrets_file is empty; name the file with the secret"
        )
        yield Problem(("api", "notify_url"), says, ("api",))
    names = [token.name for token in keys.tokens]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield Problem(("api", "tokens", number, "name"), f"{name!r} is there already; give it another")
