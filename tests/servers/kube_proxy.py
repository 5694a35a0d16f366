"""A real kube-proxy in a network namespace, and a pod network in which every pod address leads to loopback.

Cluster IPs (10.0.0.0/24) and pod addresses (192.0.2.0/24) are routed within the namespace and nowhere else:
kube-proxy turns the former into the latter, and the process that listens there gets the connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from tests.servers.control_plane import Unavailable, ensure_debian
from tests.servers.kube import KubeServer
from tests.servers.namespace import KernelRefuses, Namespace
from tests.servers.processes import running

NODE_ADDRESS = "192.0.2.254"
_ENDPOINT = re.compile(r"dnat (?:ip )?to (192\.0\.2\.\d+)|--to-destination (192\.0\.2\.\d+)", re.IGNORECASE)


class Mode(StrEnum):
    """How it changes the way of packets."""

    NFTABLES = "nftables"
    IPTABLES = "iptables"


def route(net: Namespace) -> None:
    net.run("ip", "addr", "add", f"{NODE_ADDRESS}/32", "dev", "lo")
    net.run("ip", "route", "add", "local", "192.0.2.0/24", "dev", "lo")
    net.run("ip", "route", "add", "10.0.0.0/24", "dev", "lo", "src", NODE_ADDRESS)


@contextmanager
def kube_proxy(server: KubeServer, net: Namespace, node: str, mode: Mode) -> Iterator[None]:
    """Running, and with the API server at its usual address."""
    binary = server.binaries / "kube-proxy"
    if not binary.exists():
        raise Unavailable("kube-proxy is not among the binaries of the control plane")
    ensure_debian("nft", "nftables") if mode is Mode.NFTABLES else ensure_debian("iptables", "iptables")
    _translates(net, mode)
    command = [
        str(binary),
        f"--kubeconfig={server.kubeconfig()}",
        f"--proxy-mode={mode}",
        f"--hostname-override={node}",
        f"--bind-address={NODE_ADDRESS}",
        "--healthz-bind-address=127.0.0.1:10256",
        "--metrics-bind-address=127.0.0.1:10249",
        "--detect-local-mode=InterfaceNamePrefix",
        "--pod-interface-name-prefix=pod",
        # The counts and times of tracked connections belong to the whole machine.
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
        "--kube-api-qps=100",
        "--kube-api-burst=200",
    ]
    log = server.folder / f"kube-proxy-{mode}.log"
    with net.lend(server.port), running(net.command(*command), log, lambda: bool(rules(net, mode))):
        yield


def _translates(net: Namespace, mode: Mode) -> None:
    """Whether the kernel translates addresses at all: each way needs modules of its own."""
    if mode is Mode.IPTABLES:
        tries: list[tuple[str, ...]] = [("iptables", "-t", "nat", "-S")]
    else:
        chain = "{ type nat hook prerouting priority -100 ; }"
        tries = [
            ("nft", "add", "table", "ip", "try"),
            ("nft", "add", "chain", "ip", "try", "first", chain),
            ("nft", "delete", "table", "ip", "try"),
        ]
    try:
        for words in tries:
            net.run(*words)
    except RuntimeError as why:
        raise KernelRefuses(f"no translation of addresses by {mode}: {why}") from why


def rules(net: Namespace, mode: Mode) -> str:
    """What it has written so far."""
    if mode is Mode.IPTABLES:
        found = net.run("iptables-save", "-t", "nat")
        return found if "KUBE-SERVICES" in found else ""
    found = net.run("nft", "list", "ruleset")
    return found if "kube-proxy" in found else ""


def leads_to(net: Namespace, mode: Mode) -> set[str]:
    """The addresses that connections to cluster IPs are sent to."""
    return {one or other for one, other in _ENDPOINT.findall(rules(net, mode))}
