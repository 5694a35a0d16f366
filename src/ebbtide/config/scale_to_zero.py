"""The keys of scaling to zero, for policies that say nothing themselves, and of wake on request: of the gate
itself, of a policy that has one, and which HTTP requests wake. Times are as in Go: `1h30m`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from ipaddress import ip_network
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from ebbtide.config.section import Section
from ebbtide.model.policy import (
    GateProtocol,
    HttpRules,
    NeverWake,
    ServiceRef,
    WakeHeader,
    WakeOnRequest,
    ZeroDefaults,
)

DEFAULTS = ZeroDefaults()
YEAR_SECONDS = 31_536_000
ALLOWED = "a duration such as 90s, 30m or 1h30m"
_PART = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
_WHOLE = re.compile(f"(?:{_PART})+")
_SECONDS = {
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
    "ns": Decimal("0.000000001"),
}
_MICRO = Decimal("0.000001")


def read_duration(text: str) -> int:
    """Seconds of a duration as Go writes it. Raises `ValueError` for anything else."""
    if text == "0":
        return 0
    if _WHOLE.fullmatch(text) is None:
        raise ValueError(f"not a duration; allowed: {ALLOWED}")
    parts = re.findall(_PART, text)
    seconds = sum((Decimal(number) * _SECONDS.get(unit, _MICRO) for number, unit in parts), Decimal(0))
    if seconds != int(seconds) or seconds > YEAR_SECONDS:
        raise ValueError(f"not a valid duration; allowed: {ALLOWED}, a year at most")
    return int(seconds)


def write_duration(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    minutes, left = divmod(rest, 60)
    text = f"{hours}h" * (hours > 0) + f"{minutes}m" * (minutes > 0) + f"{left}s" * (left > 0)
    return text or "0s"


def _checked(text: str) -> str:
    read_duration(text)
    return text


def _not_nothing(text: str) -> str:
    if not read_duration(text):
        raise ValueError(f"no time at all; allowed: {ALLOWED}, more than 0")
    return text


def _duration(seconds: int, says: str) -> Any:
    return Field(write_duration(seconds), description=says, json_schema_extra={"allowed": ALLOWED})


Duration = Annotated[str, AfterValidator(_checked)]
SomeTime = Annotated[str, AfterValidator(_not_nothing)]


class ScaleToZeroKeys(Section):
    idle_threshold: Duration = _duration(
        DEFAULTS.idle_threshold_seconds, "A target must have been idle this long..."
    )
    keep_alive: Duration = _duration(
        DEFAULTS.keep_alive_window_seconds, "...and then quiet this long, before it goes to zero."
    )
    cold_start_timeout: SomeTime = _duration(
        DEFAULTS.cold_start_timeout_seconds, "How long a caller waits for a wake to be ready."
    )
    check_interval: SomeTime = _duration(
        DEFAULTS.check_interval_seconds, "Time between two rounds of the idle loop."
    )
    cost_tracking: bool = Field(DEFAULTS.cost_tracking, description="Whether the savings ledger is kept.")
    max_keep_alive: Duration = _duration(
        DEFAULTS.max_keep_alive_seconds,
        "The longest keep-alive window, if it grows because wakes cost too much.",
    )
    sleep_policies: bool = Field(
        False, description="Whether SleepPolicy objects of the cluster are applied; needs their CRD."
    )
    sleep_annotations: bool = Field(
        False, description="Whether the annotation `ebbtide.dev/sleep` of workloads is applied."
    )

    def defaults(self) -> ZeroDefaults:
        return ZeroDefaults(
            read_duration(self.idle_threshold),
            read_duration(self.keep_alive),
            read_duration(self.cold_start_timeout),
            read_duration(self.check_interval),
            self.cost_tracking,
            read_duration(self.max_keep_alive),
        )


HTTP_DEFAULTS = NeverWake()
HOST = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.IGNORECASE)
PATH = re.compile(r"/[^\s?#*]*\*?")
REQUEST = re.compile(r"[A-Z]+ /[^\s?#]*")
TOKEN = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
PRINTABLE = r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$|^$"
MOST_RULES = 100


def _network(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError:
        raise ValueError("no network; allowed: a CIDR such as 10.0.0.0/8") from None


def _host(text: str) -> str:
    if not HOST.fullmatch(text):
        raise ValueError(
            "not a host; allowed: a name such as shop.example.com, or *.example.com, without a port"
        )
    return text.lower()


def _path(text: str) -> str:
    if not PATH.fullmatch(text):
        raise ValueError("no path; allowed: /exact, or /beginning* with one * at the end; no query")
    return text


def _request(text: str) -> str:
    if not REQUEST.fullmatch(text):
        raise ValueError("no request; allowed: METHOD /path, such as HEAD /")
    return text


Network = Annotated[str, AfterValidator(_network)]
Host = Annotated[str, Field(max_length=255), AfterValidator(_host)]
Path = Annotated[str, Field(max_length=1000), AfterValidator(_path)]
Request = Annotated[str, Field(max_length=1000), AfterValidator(_request)]
Agent = Annotated[str, Field(min_length=2, max_length=100)]


class NeverWakeKeys(Section):
    known: bool = Field(
        HTTP_DEFAULTS.known,
        description="Also probes, scanners and crawlers known to this version (docs/gate.md).",
    )
    hosts: tuple[Host, ...] = Field(
        (), max_length=MOST_RULES, strict=False, description="Hosts: exact, or `*.example.com`."
    )
    paths: tuple[Path, ...] = Field(
        (),
        max_length=MOST_RULES,
        strict=False,
        description="Paths: exact, or a beginning that ends with `*`.",
    )
    agents: tuple[Agent, ...] = Field(
        (),
        max_length=MOST_RULES,
        strict=False,
        description="Parts of the user agent; upper and lower case are the same.",
    )
    requests: tuple[Request, ...] = Field(
        HTTP_DEFAULTS.requests, max_length=MOST_RULES, strict=False, description="Method and exact path."
    )


class WakeHeaderKeys(Section):
    name: str = Field(pattern=TOKEN, max_length=100, description="Name of the header.")
    value: str = Field("", pattern=PRINTABLE, max_length=1000, description="Its exact value. Default: any.")


class HttpKeys(Section):
    waiting_page: bool = Field(
        False, description="Whether browsers get a page that reloads by itself, instead of being held."
    )
    never_wake: NeverWakeKeys = Field(
        NeverWakeKeys(),
        description="Requests that do not wake it.",
        json_schema_extra={"allowed": "see below"},
    )
    wake_header: WakeHeaderKeys | None = Field(
        None, description="A header that a request needs to wake.", json_schema_extra={"allowed": "see below"}
    )
    trusted_proxies: tuple[Network, ...] = Field(
        (), max_length=50, strict=False, description="Networks whose X-Forwarded-For header is trusted."
    )

    def rules(self) -> HttpRules:
        never, header = self.never_wake, self.wake_header
        return HttpRules(
            waiting_page=self.waiting_page,
            never_wake=NeverWake(never.known, never.hosts, never.paths, never.agents, never.requests),
            wake_header=WakeHeader(header.name, header.value) if header is not None else None,
            trusted_proxies=self.trusted_proxies,
        )


def http_keys_of(rules: HttpRules) -> HttpKeys:
    """Rules as they would be written."""
    never, header = rules.never_wake, rules.wake_header
    return HttpKeys(
        waiting_page=rules.waiting_page,
        never_wake=NeverWakeKeys(
            known=never.known,
            hosts=never.hosts,
            paths=never.paths,
            agents=never.agents,
            requests=never.requests,
        ),
        wake_header=WakeHeaderKeys(name=header.name, value=header.value) if header is not None else None,
        trusted_proxies=rules.trusted_proxies,
    )


KUBE_NAME = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
GATE_DEFAULTS = WakeOnRequest(())
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
        description="Namespaces whose Services may point at the gates. The RBAC rules must list the same.",
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
        GATE_DEFAULTS.max_held, ge=1, le=1_000_000, description="The most connections held at once."
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

    def gate(self) -> WakeOnRequest:
        return WakeOnRequest(
            services=self.refs(),
            protocol=self.protocol,
            hold_seconds=self.hold_seconds,
            max_held=self.max_held,
            sources=self.sources,
            first_bytes=self.first_bytes,
            least_bytes=self.least_bytes,
            http=self.http.rules() if self.http is not None else GATE_DEFAULTS.http,
        )


def gate_keys_of(gate: WakeOnRequest) -> PolicyGateKeys:
    """A gate as it would be written."""
    return PolicyGateKeys(
        services=tuple(ServiceKeys(namespace=each.namespace, name=each.name) for each in gate.services),
        protocol=gate.protocol,
        hold_seconds=gate.hold_seconds,
        max_held=gate.max_held,
        sources=gate.sources,
        first_bytes=gate.first_bytes,
        least_bytes=gate.least_bytes,
        http=http_keys_of(gate.http) if gate.http != GATE_DEFAULTS.http else None,
    )
