"""Services whose first connection wakes a policy, and how the gate treats what arrives for them.

While the policy sleeps, an EndpointSlice of ours (a `Takeover`) points the Service at the gates. One gate
port stands for one port of one Service, so bytes pass without being read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, order=True)
class ServiceRef:
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"Service {self.namespace}/{self.name}"


class GateProtocol(StrEnum):
    TCP = "tcp"
    """Any protocol over TCP: TLS, HTTP/2, WebSocket and gRPC pass unread."""
    HTTP = "http"
    """The first request of a connection is read: it may get a page, or wake nobody."""
    MINECRAFT = "minecraft"
    """A status ping is answered and wakes nobody; a login wakes."""


@dataclass(frozen=True, slots=True)
class NeverWake:
    """Requests that wake nobody. Each is answered at once."""

    known: bool = True
    """Also the probes, scanners and crawlers that are known to this version."""
    hosts: tuple[str, ...] = ()
    """Exact, or `*.example.com` for all below it."""
    paths: tuple[str, ...] = ()
    """Exact, or the beginning where it ends with `*`."""
    agents: tuple[str, ...] = ()
    """Parts of the user agent, in any case."""
    requests: tuple[str, ...] = ("HEAD /",)
    """Method and exact path."""


@dataclass(frozen=True, slots=True)
class WakeHeader:
    """What a request must carry to wake."""

    name: str
    value: str = ""
    """Empty: any."""


@dataclass(frozen=True, slots=True)
class HttpRules:
    """Which requests wake, and what a browser gets meanwhile."""

    waiting_page: bool = False
    """For browsers: a page that shows how long it takes and reloads by itself. Else they are held as well."""
    never_wake: NeverWake = NeverWake()
    wake_header: WakeHeader | None = None
    trusted_proxies: tuple[str, ...] = ()
    """Networks (CIDR) whose `X-Forwarded-For` is believed."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What a policy says about wake on request."""

    services: tuple[ServiceRef, ...]
    protocol: GateProtocol = GateProtocol.TCP
    hold_seconds: int | None = None
    """None: the policy's cold-start timeout."""
    max_held: int = 1000
    sources: tuple[str, ...] = ()
    """Networks (CIDR) whose connections may wake; empty: any."""
    first_bytes: str = ""
    """In hexadecimal: what a connection must begin with to wake. TCP alone."""
    least_bytes: int = 0
    """How many bytes must have arrived before a connection wakes. TCP alone."""
    http: HttpRules = HttpRules()
    """HTTP alone."""


@dataclass(frozen=True, slots=True)
class ServicePort:
    name: str
    """Empty where the Service has one port without a name."""
    port: int


@dataclass(frozen=True, slots=True)
class GatePort:
    """The port of the gates that stands for one port of a Service."""

    name: str
    port: int


@dataclass(frozen=True, slots=True)
class Takeover:
    """Our EndpointSlices of one Service, as they were seen. `version` changes with every write of any of
    them; a release is for exactly the version that was seen."""

    service: ServiceRef
    version: str
    ports: tuple[GatePort, ...] = ()
    gates: tuple[str, ...] = ()
    """Addresses of the gates, in order."""


@dataclass(frozen=True, slots=True)
class Service:
    ref: ServiceRef
    ports: tuple[ServicePort, ...]
    """Those of TCP."""
    selects: bool = True
    """Whether it selects pods; without, nobody but a person knows its endpoints."""
    headless: bool = False
    external: bool = False
    ready: int = 0
    """Addresses of its own pods that are ready."""
    takeover: Takeover | None = None
