"""The one way out: every address that comes from the configuration is looked at here before it is spoken to.

Anyone who can change a URL of the configuration, or the DNS behind it, could otherwise make this process ask
the metadata service of its cloud and show the answer. So a name is looked up once, all its addresses are
judged, and the connection goes to one that was: asked a second time, the name could point elsewhere. A
redirect is a new connection, and judged like any other.

The SDK of a cloud asks the metadata service for its own credentials by a connection of its own; that stays.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from ebbtide.errors import AddressRefused
from ebbtide.redact import keep

PORTS = {"http": 80, "https": 443}
NEVER = tuple(
    ip_network(text)
    for text in (
        "169.254.0.0/16",  # link-local: EC2, Google, Azure, Hetzner, Scaleway; 169.254.170.2 is that of tasks
        "fe80::/10",
        "fd00:ec2::/32",  # EC2 and EKS over IPv6
        "fd20:ce::254/128",  # Google over IPv6
        "fd00:42::42/128",  # Scaleway over IPv6
        "100.100.100.200/32",  # Alibaba
        "168.63.129.16/32",  # the host of Azure's machines
        "192.0.0.192/32",  # Oracle
    )
)
NEVER_NAMES = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
"""Names of metadata services: refused as such, since what they resolve to may change."""
HOSTS = frozenset(
    map(
        IPv4Address,
        (
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
        ),
    )
)
"""Refused in every place where any IPv6 address may carry one: a network may have a prefix for NAT64 that we
do not know."""
_CARRIES = tuple(
    ip_network(text)
    for text in (
        "::/96",  # compatible
        "::ffff:0:0:0/96",  # translated (SIIT)
        "64:ff9b::/96",  # NAT64
    )
)
"""The last four bytes are an IPv4 address."""
_LOCAL_NAT64 = ip_network("64:ff9b:1::/48")
_PLACES = ((4, 5, 6, 7), (5, 6, 7, 9), (6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12), (12, 13, 14, 15))
"""Where it may stand in an address of NAT64 (RFC 6052), by the length of the prefix."""
_ISATAP = (0x00005EFE, 0x02005EFE)


def forbidden(address: str) -> bool:
    """Whether clouds hand out credentials there; also where an IPv6 address only carries such an IPv4 one."""
    found = ip_address(address.partition("%")[0])
    return any(each in network for each in (found, *_carried(found)) for network in NEVER)


def why_not(url: str, allowed: Sequence[str] = ()) -> str:
    """What speaks against a URL before any name is looked up; empty where nothing does."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "it is not a URL"
    if parts.scheme not in PORTS or not host:
        return "it is not a URL of http or https"
    if _named_never(host) or _is_forbidden_number(host):
        return f"{host} is the address of a metadata service, which is never spoken to"
    if allowed and not any(_matches(host, each) for each in allowed):
        return f"{host} is not among the hosts that are allowed ({', '.join(allowed)})"
    return ""


def checked(url: str, allowed: Sequence[str] = ()) -> str:
    """The URL itself, or `AddressRefused`."""
    if why := why_not(url, allowed):
        raise AddressRefused(f"nothing was sent: {why}")
    return url


def addresses_of(host: str, port: int) -> list[str]:
    """All of a name, judged: one that is forbidden refuses them all, or chance would choose."""
    if _named_never(host):
        raise AddressRefused(f"nothing was sent: {host} is the name of a metadata service, never spoken to")
    found = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for address in found:
        if forbidden(address):
            raise AddressRefused(f"nothing was sent: {host} is {address}, an address that is never spoken to")
    return list(dict.fromkeys(found))


def connected(host: str, port: int, encrypted: bool, seconds: float) -> socket.socket:
    """A connection to one of the very addresses that were judged."""
    failed: OSError = OSError("no address")
    for address in addresses_of(host, port):
        try:
            plain = socket.create_connection((address, port), seconds)
        except OSError as error:
            failed = error
            continue
        if not encrypted:
            return plain
        try:
            return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise
    raise failed


def guarded(manager: Any) -> Any:
    """The same `urllib3.PoolManager`, whose connections are made as `connected` makes them."""
    classes = manager.pool_classes_by_scheme
    manager.pool_classes_by_scheme = {scheme: _guarded_pool(each) for scheme, each in classes.items()}
    return manager


def guarded_aws(client: Any) -> Any:
    """The same client of boto3. Its credentials come by connections of their own, which are left alone."""
    guarded(client._endpoint.http_session._manager)
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        keep(os.environ.get(name, ""))
    return client


def refusal_in(error: BaseException) -> AddressRefused | None:
    """boto3 wraps what it does not know."""
    inner = error.__context__
    return inner if isinstance(inner, AddressRefused) else None


@lru_cache(maxsize=16)
def _guarded_pool(pool: Any) -> Any:
    from urllib3.exceptions import NameResolutionError, NewConnectionError

    class Guarded(pool.ConnectionCls):  # type: ignore[misc] # which one differs from library to library
        _dns_host: Any

        def _new_conn(self) -> Any:
            name = self._dns_host
            try:
                found = addresses_of(name, self.port)
            except (socket.gaierror, UnicodeError) as error:
                gone = error if isinstance(error, socket.gaierror) else socket.gaierror(str(error))
                raise NameResolutionError(name, self, gone) from error
            failed: Exception = NewConnectionError(self, "Failed to establish a new connection: no address")
            for address in found:
                self._dns_host = address
                try:
                    return super()._new_conn()
                except NewConnectionError as error:
                    failed = error
                finally:
                    self._dns_host = name  # what the certificate must be for
            raise failed

    return type(f"Guarded{pool.__name__}", (pool,), {"ConnectionCls": Guarded})


def _carried(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    if isinstance(address, IPv4Address):
        return []
    last = IPv4Address(int(address) & 0xFFFFFFFF)
    carries = any(address in network for network in _CARRIES) or (int(address) >> 32) & 0xFFFFFFFF in _ISATAP
    found = [address.ipv4_mapped, address.sixtofour, address.teredo[1] if address.teredo else None]
    found += [last] if carries else []
    placed = [IPv4Address(bytes(address.packed[place] for place in places)) for places in _PLACES]
    found += placed if address in _LOCAL_NAT64 else [each for each in placed if each in HOSTS]
    return [each for each in found if each is not None]


def _is_forbidden_number(host: str) -> bool:
    """An address in any way of writing it: 169.254.169.254 is also 0xa9fea9fe."""
    try:
        return forbidden(host)
    except ValueError:
        pass
    try:
        return forbidden(socket.inet_ntoa(socket.inet_aton(host)))
    except OSError:
        return False


def _named_never(host: str) -> bool:
    return host.lower().rstrip(".") in NEVER_NAMES


def _matches(host: str, allowed: str) -> bool:
    """`hooks.example.com` is that host alone, `*.example.com` every host below it."""
    host, allowed = host.lower().rstrip("."), allowed.lower().rstrip(".")
    return host == allowed or (allowed.startswith("*.") and host.endswith(allowed[1:]))
