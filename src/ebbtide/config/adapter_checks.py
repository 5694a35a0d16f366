"""Which sections belong together: a simulated cluster needs none, a real one those of its cloud."""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.config.join_checks import check_join
from ebbtide.config.problems import Problem, shown
from ebbtide.config.schema import Document
from ebbtide.config.section import Section

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
