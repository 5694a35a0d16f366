"""What reaches out: which sections belong together (a simulated cluster needs none, a real one those of its
cloud), who may listen where, which addresses may be contacted, and which keys of `join` belong together.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from urllib.parse import parse_qs, urlsplit

from ebbtide.config.api import ApiKeys, beyond_loopback
from ebbtide.config.problems import FILL_IN, ConfigProblem, shown
from ebbtide.config.schema import Document
from ebbtide.config.section import Section
from ebbtide.core.join_template import problems_with
from ebbtide.outgoing import why_not

COMMON = frozenset({"region", "endpoint"})
"""Keys whose variables other programs set as well: they alone do not make a section."""
OF_REAL = ("join", "aws", "hetzner", "metrics")
OTHERS = ("cloud", "cluster")
TOKENS = ("token_parameter", "token_secret", "token_file", "token_command")
ONLY_AWS = ("token_parameter", "token_secret")
NEEDED = {
    "k3s": ("server_url",),
    "rke2": ("server_url",),
    "kubeadm": ("server_url", "ca_cert_hash"),
    "eks": ("server_url", "cluster_name", "ca_certificate", "service_cidr"),
    "custom": ("template",),
}
OWN = {
    "k3s_version": ("k3s",),
    "version": ("rke2", "custom"),
    "install_command": ("k3s", "rke2", "kubeadm"),
    "ca_cert_hash": ("kubeadm",),
    "cluster_name": ("eks",),
    "ca_certificate": ("eks",),
    "service_cidr": ("eks",),
    "template": ("custom",),
}
"""Keys that not every kind has."""
FORMS = {
    "server_url": "a URL such as https://10.0.0.2:6443",
    "ca_cert_hash": "sha256: and 64 hex digits; `kubeadm token create --print-join-command` prints it",
    "cluster_name": "the name of the cluster in EKS",
    "ca_certificate": "base64; `aws eks describe-cluster` prints it under certificateAuthority.data",
    "service_cidr": "a network; `aws eks describe-cluster` prints it under kubernetesNetworkConfig",
    "template": "the user data of a new node",
}


def check_adapters(d: Document) -> Iterator[ConfigProblem]:
    if d.cluster.kind == "simulator":
        yield from _simulated(d)
        return
    if d.cloud.kind is None:
        yield ConfigProblem(
            ("cloud", "kind"),
            "is missing, and a cluster of kind kubernetes needs a cloud; allowed: aws or hetzner",
            ("cluster",),
        )
    if "pools" not in d.model_fields_set:
        yield ConfigProblem(
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


def _simulated(d: Document) -> Iterator[ConfigProblem]:
    for key in ("kubeconfig", "context"):
        if getattr(d.cluster, key):
            yield _misplaced(("cluster", key), "cluster.kind is simulator")
    if d.cloud.kind is not None:
        yield _misplaced(("cloud", "kind"), "cluster.kind is simulator")
    for name in OF_REAL:
        if _used(getattr(d, name)):
            yield _misplaced((name,), "cluster.kind is simulator")


def _aws(d: Document) -> Iterator[ConfigProblem]:
    if _used(d.hetzner):
        yield _misplaced(("hetzner",), "cloud.kind is aws")
    if not (d.aws.image or d.aws.launch_template):
        yield ConfigProblem(
            ("aws", "image"),
            "is missing, and EC2 needs it or launch_template; allowed: the id of an AMI",
            ("cloud", "cluster"),
        )
    for number, pool in enumerate(d.pools if d.aws.subnets else ()):
        for zone in pool.zones:
            if zone not in d.aws.subnets:
                says = f"{shown(zone)} has no subnet in aws.subnets; add it there or leave out the zone"
                yield ConfigProblem(("pools", number, "zones"), says, ("aws", "cloud", "cluster"))


def _hetzner(d: Document) -> Iterator[ConfigProblem]:
    if _used(d.aws):
        yield _misplaced(("aws",), "cloud.kind is hetzner")
    if not d.hetzner.image:
        yield ConfigProblem(
            ("hetzner", "image"),
            "is missing; allowed: the name of an image, or the id of a snapshot in quotes",
            ("cloud", "cluster"),
        )
    for number, pool in enumerate(d.pools):
        if pool.market == "spot":
            yield ConfigProblem(
                ("pools", number, "market"),
                '"spot" is not allowed with cloud.kind hetzner, which has no spot market; allowed: on-demand',
                ("cloud", "cluster"),
            )


def _metrics(d: Document) -> Iterator[ConfigProblem]:
    for key in ("query", "token_file"):
        if getattr(d.metrics, key) and not d.metrics.prometheus_url:
            says = "needs metrics.prometheus_url, which is missing; give it or leave this out"
            yield ConfigProblem(("metrics", key), says, ("cluster",))


def _used(section: Section) -> bool:
    return bool(section.model_fields_set - COMMON)


def _misplaced(path: tuple[str, ...], why: str) -> ConfigProblem:
    return ConfigProblem(path, f"is given, but {why}; leave it out or change that", ("cluster", "cloud"))


def check_addresses(d: Document) -> Iterator[ConfigProblem]:
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
            yield ConfigProblem(path, f"cannot be used: {why}; give another address", (path[0],))


def _endpoint_of(store_url: str) -> str:
    try:
        parts = urlsplit(store_url)
    except ValueError:
        return ""
    return parse_qs(parts.query).get("endpoint", [""])[0] if parts.scheme == "dynamodb" else ""


def check_api(keys: ApiKeys) -> Iterator[ConfigProblem]:
    if keys.listen != "off" and beyond_loopback(keys.listen) and not keys.tokens:
        says = (
            f"{keys.listen} can be reached from other machines, and api.tokens is empty; make a token with "
            "`ebbtide token new`, or listen on 127.0.0.1"
        )
        yield ConfigProblem(("api", "listen"), says, ("api",))
    if keys.notify_url and not keys.webhook_secrets_file:
        says = (
            "notifications are signed, and api.webhook_secrets_file is empty; name the file with the secret"
        )
        yield ConfigProblem(("api", "notify_url"), says, ("api",))
    names = [token.name for token in keys.tokens]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield ConfigProblem(("api", "tokens", number, "name"), f"{name!r} exists already; choose another")


def check_join(d: Document) -> Iterator[ConfigProblem]:
    if not d.join.model_fields_set:
        return
    kind = d.join.kind
    for key in NEEDED[kind]:
        if not getattr(d.join, key):
            yield _problem(key, f"is missing; allowed: {FORMS[key]}")
    for key, kinds in OWN.items():
        if key in d.join.model_fields_set and kind not in kinds:
            yield _problem(
                key, f"is for join.kind {' or '.join(kinds)}, and it is {kind}; leave it out or change that"
            )
    yield from _token(d)
    if kind == "eks" and d.cloud.kind == "hetzner":
        yield _problem("kind", '"eks" is not allowed with cloud.kind hetzner; EKS is of aws')
    yield from (_problem("template", says) for says in problems_with(d.join.template))
    if d.join.service_cidr and (wrong := _wrong_network(d.join.service_cidr)):
        yield _problem("service_cidr", wrong)


def _token(d: Document) -> Iterator[ConfigProblem]:
    given = [key for key in TOKENS if getattr(d.join, key)]
    for key in given:
        if key in ONLY_AWS and d.cloud.kind == "hetzner":
            says = "is for aws, and cloud.kind is hetzner; keep the token in the image or give token_command"
            yield _problem(key, says)
        elif d.join.kind == "eks":
            says = "is given, and a node of EKS proves itself with its instance profile; leave it out"
            yield _problem(key, says)
    if len(given) > 1:
        yield _problem(given[1], f"is given next to {given[0]}; say in one place where the token is")
    needs = d.join.kind in ("k3s", "rke2", "kubeadm") and d.cloud.kind == "aws"
    if needs and d.join.server_url and not given:
        says = "is missing, and new nodes need the join token; give this, token_secret, token_file or "
        yield _problem("token_parameter", f"{says}token_command")


def _wrong_network(text: str) -> str:
    if text == FILL_IN:
        return ""
    try:
        ip_network(text)
    except ValueError:
        return f"{shown(text)} is not a network; allowed: {FORMS['service_cidr']}"
    return ""


def _problem(key: str, says: str) -> ConfigProblem:
    return ConfigProblem(("join", key), says, OTHERS)
