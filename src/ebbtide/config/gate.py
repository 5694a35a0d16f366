"""The keys of wake on request: of the gate itself, and of a policy that has one."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from ebbtide.config.gate_http import HttpKeys, Network, http_keys_of
from ebbtide.config.section import Section
from ebbtide.model.gate import Gate, GateProtocol, ServiceRef

KUBE_NAME = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
DEFAULTS = Gate(())
MOST_PORTS = 20_000
LAST_PORT = 65_535
LEAST_PORT = 1024


def _ports(text: str) -> str:
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and LEAST_PORT <= int(first) <= int(last) <= LAST_PORT):
        raise ValueError(f"no range of ports; allowed: FIRST-LAST, from {LEAST_PORT} to {LAST_PORT}")
    if int(last) - int(first) >= MOST_PORTS:
        raise ValueError(f"too many ports; allowed: {MOST_PORTS} at most")
    return text


def _service(text: str) -> str:
    namespace, slash, name = text.partition("/")
    if text and not (namespace and slash and name and "/" not in name):
        raise ValueError("no Service; allowed: NAMESPACE/NAME")
    return text


def _bytes(text: str) -> str:
    try:
        return bytes.fromhex(text).hex()
    except ValueError:
        raise ValueError("no bytes; allowed: hexadecimal digits, two a byte") from None


class GateKeys(Section):
    service: Annotated[str, AfterValidator(_service)] = Field(
        "",
        description="The Service in front of the gates. Without it, there is no wake on request.",
        json_schema_extra={"allowed": "NAMESPACE/NAME"},
    )
    namespaces: tuple[str, ...] = Field(
        (),
        description="Namespaces whose Services may lead to the gates; the RBAC rules must name the same.",
    )
    ports: Annotated[str, AfterValidator(_ports)] = Field(
        "20000-20255",
        description="Ports of the gates; each serves one port of one Service.",
        json_schema_extra={"allowed": "FIRST-LAST"},
    )
    host: str = Field("0.0.0.0", min_length=1, description="Address on which a gate listens; `::` for IPv6.")
    max_held: int = Field(10_000, ge=1, le=1_000_000, description="The most connections that one gate holds.")
    wakes_per_minute: int = Field(
        60, ge=1, le=1_000_000, description="Wakes that one source may start in a minute."
    )
    drain_sec: int = Field(
        10, ge=0, le=600, description="On shutdown, keep accepting this long while the gate is withdrawn."
    )
    grace_sec: int = Field(
        120, ge=0, le=86_400, description="On shutdown, wait this long for open connections to end."
    )

    @property
    def service_ref(self) -> ServiceRef | None:
        namespace, _, name = self.service.partition("/")
        return ServiceRef(namespace, name) if name else None

    @property
    def port_range(self) -> range:
        first, _, last = self.ports.partition("-")
        return range(int(first), int(last) + 1)


class ServiceKeys(Section):
    namespace: str = Field("default", pattern=KUBE_NAME, description="Namespace of the Service.")
    name: str = Field(pattern=KUBE_NAME, description="Name of the Service.")


class PolicyGateKeys(Section):
    services: tuple[ServiceKeys, ...] = Field(
        min_length=1, max_length=20, strict=False, description="Services whose first connection wakes it."
    )
    protocol: GateProtocol = Field(
        GateProtocol.TCP,
        strict=False,
        description="tcp passes everything unread; http reads the first request; minecraft answers pings.",
        json_schema_extra={"allowed": "tcp, http or minecraft"},
    )
    hold_seconds: int | None = Field(
        None, ge=1, le=3600, description="How long a connection is held. Default: the cold-start timeout."
    )
    max_held: int = Field(
        DEFAULTS.max_held, ge=1, le=1_000_000, description="The most connections held at once."
    )
    sources: tuple[Network, ...] = Field(
        (), max_length=50, strict=False, description="Networks whose connections may wake it. Default: any."
    )
    first_bytes: Annotated[str, AfterValidator(_bytes)] = Field(
        "",
        max_length=128,
        description="The first bytes, in hexadecimal, that a connection must send to wake it.",
    )
    least_bytes: int = Field(0, ge=0, le=2048, description="How many bytes must arrive before it wakes.")
    http: HttpKeys | None = Field(
        None,
        description="Which requests wake, and what browsers get; for the protocol http.",
        json_schema_extra={"allowed": "see below"},
    )

    @model_validator(mode="after")
    def _each_service_once(self) -> PolicyGateKeys:
        if len(set(self.refs())) < len(self.services):
            raise ValueError("a gate that names a Service twice; name each once")
        return self

    @model_validator(mode="after")
    def _rules_of_its_protocol(self) -> PolicyGateKeys:
        if self.http is not None and self.protocol is not GateProtocol.HTTP:
            raise ValueError(
                f"http rules for the protocol {self.protocol}; set protocol to http, or leave them out"
            )
        if (self.first_bytes or self.least_bytes) and self.protocol is not GateProtocol.TCP:
            raise ValueError(f"first_bytes or least_bytes for the protocol {self.protocol}; leave them out")
        return self

    def refs(self) -> tuple[ServiceRef, ...]:
        return tuple(ServiceRef(each.namespace, each.name) for each in self.services)

    def gate(self) -> Gate:
        return Gate(
            services=self.refs(),
            protocol=self.protocol,
            hold_seconds=self.hold_seconds,
            max_held=self.max_held,
            sources=self.sources,
            first_bytes=self.first_bytes,
            least_bytes=self.least_bytes,
            http=self.http.rules() if self.http is not None else DEFAULTS.http,
        )


def gate_keys_of(gate: Gate) -> PolicyGateKeys:
    """A gate as it would be written."""
    return PolicyGateKeys(
        services=tuple(ServiceKeys(namespace=each.namespace, name=each.name) for each in gate.services),
        protocol=gate.protocol,
        hold_seconds=gate.hold_seconds,
        max_held=gate.max_held,
        sources=gate.sources,
        first_bytes=gate.first_bytes,
        least_bytes=gate.least_bytes,
        http=http_keys_of(gate.http) if gate.http != DEFAULTS.http else None,
    )
