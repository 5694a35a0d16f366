"""Which keys of `join` belong together: each kind has its own, and one place for its token."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

from ebbtide.config.problems import Problem, shown
from ebbtide.config.schema import Document
from ebbtide.config.unfilled import FILL_IN
from ebbtide.core.join_template import problems_with

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


def check_join(d: Document) -> Iterator[Problem]:
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


def _token(d: Document) -> Iterator[Problem]:
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
        return f"{shown(text)} is no network; allowed: {FORMS['service_cidr']}"
    return ""


def _problem(key: str, says: str) -> Problem:
    return Problem(("join", key), says, OTHERS)
