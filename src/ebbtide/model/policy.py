"""Policies: what may be scaled, between which bounds, by which rules, and when it may go to zero; the
Services whose first connection wakes one, and policies that objects of the cluster declare.

A policy is what people wrote. What happened to it since is in `ebbtide.model.idle`.

Services whose first connection wakes a policy, and how the gate treats what arrives for them. While the
policy sleeps, an EndpointSlice of ours (a `Takeover`) points the Service at the gates. One gate port stands
for one port of one Service, so bytes pass without being read.

Policies that Kubernetes objects declare, and the status that these objects get. A `SleepPolicy` has
a status that says how its policy is doing. A Deployment or StatefulSet with the sleep annotation has none:
only problems are reported, as Events.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from ebbtide.model.pod import WorkloadRef


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
class WakeOnRequest:
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


FROM_CONFIGURATION = "configuration"
"""The origin of a policy that stands in the configuration."""


@dataclass(frozen=True, slots=True)
class Target:
    """One workload, several as a group that sleeps and wakes together, or a whole node pool."""

    workloads: tuple[WorkloadRef, ...] = ()
    pool: str = ""

    def __str__(self) -> str:
        return f"pool {self.pool}" if self.pool else ", ".join(str(each) for each in self.workloads)


class Operator(StrEnum):
    GT = "gt"
    LT = "lt"
    GTE = "gte"
    LTE = "lte"
    EQ = "eq"


@dataclass(frozen=True, slots=True)
class Rule:
    """Scale by so many replicas once the metric has compared so for the duration."""

    metric: str
    """PromQL."""
    operator: Operator
    threshold: float
    duration_seconds: int = 0
    scale_by: int = 1
    """Negative scales down."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """At each time of the cron expression: sleep (`replicas` 0), so many replicas, or a wake."""

    cron: str
    zone: str = "UTC"
    replicas: int = 1
    except_dates: tuple[str, ...] = ()
    """Days of the zone, ISO 8601, on which it does not fire: holidays."""
    wake: bool = False
    """Restore what each workload had; `replicas` then says nothing."""
    written_at: int = 0
    """Since when it has been part of the policy: it never fires for an earlier time. 0: written by a version
    that did not note it."""

    @property
    def sleeps(self) -> bool:
        return not self.wake and self.replicas == 0


class SignalKind(StrEnum):
    PROMQL_RATE = "promql_rate"
    """Active while the query gives more than the threshold; the query is expected to be a rate."""
    PROMQL_VALUE = "promql_value"
    CONNECTIONS = "connections"
    """Open connections by PromQL; active above the threshold, whatever their traffic."""
    CPU = "cpu"
    """Cores in use by PromQL; active above the threshold."""
    REPORTED = "reported"
    """Requests that others report to the API. Never unknown: what was not reported did not happen."""


@dataclass(frozen=True, slots=True)
class Signal:
    kind: SignalKind
    query: str = ""
    threshold: float = 0.0


@dataclass(frozen=True, slots=True)
class Policy:
    id: str
    name: str
    target: Target
    min_replicas: int = 1
    max_replicas: int = 10
    cooldown_seconds: int = 300
    max_hourly_cost: Decimal | None = None
    scale_to_zero: bool = False
    enabled: bool = True
    rules: tuple[Rule, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    signals: tuple[Signal, ...] = ()
    """Any of them active is activity; any of them unknown is not idleness. Without any, idleness is not
    watched: only schedules put the target to sleep."""
    idle_threshold_seconds: int | None = None
    keep_alive_window_seconds: int | None = None
    cold_start_timeout_seconds: int | None = None
    """None: the default of the configuration."""
    grace_seconds: int = 300
    """After creation, after a deployment: not idle."""
    hourly_cost: Decimal | None = None
    """What its target costs while up, where a person knows better than the price book."""
    currency: str = "EUR"
    zone: str = "UTC"
    """Whose midnight splits the days of its ledger."""
    version: int = 0
    """Raised by every write; 0 was never written. The ETag of the API."""
    created_at: int = 0
    updated_at: int = 0
    gate: WakeOnRequest | None = None
    """Wake on request: the Services whose first connection wakes it."""
    origin: str = ""
    """Who answers for it: `FROM_CONFIGURATION`, or empty where somebody made it by hand. A policy that has
    left the configuration is told from others by it."""


@dataclass(frozen=True, slots=True)
class ZeroDefaults:
    """`SCALE_TO_ZERO_*`, for policies that do not say themselves."""

    idle_threshold_seconds: int = 1800
    keep_alive_window_seconds: int = 300
    cold_start_timeout_seconds: int = 120
    check_interval_seconds: int = 60
    cost_tracking: bool = True
    max_keep_alive_seconds: int = 14400
    """How far the flap guard may stretch the keep-alive window."""


ORIGIN = "kubernetes:"
"""How the origin of a policy begins that an object of the cluster declares."""


class Declarer(StrEnum):
    SLEEP_POLICY = "SleepPolicy"
    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"


@dataclass(frozen=True, slots=True)
class ObjectRef:
    kind: Declarer
    namespace: str
    name: str

    @property
    def origin(self) -> str:
        """Of its policy. Without the UID: an object that is made again under its name keeps its policy."""
        return f"{ORIGIN}{self.kind}/{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def declared_by(policy: Policy) -> str:
    """The object that declares the policy, as people name it; empty where it is none of the cluster."""
    kind, name = _declarer(policy)
    return f"{kind} {name}" if kind else ""


def declaring_kind(policy: Policy) -> str:
    return _declarer(policy)[0]


def _declarer(policy: Policy) -> tuple[str, str]:
    if not policy.origin.startswith(ORIGIN):
        return "", ""
    kind, _, name = policy.origin.removeprefix(ORIGIN).partition("/")
    return kind, name


class Readiness(StrEnum):
    """Whether the policy is as its object says; the reason of the condition `Ready`."""

    APPLIED = "Applied"
    CONFLICT = "Conflict"
    """Another policy has its target or its name."""
    INVALID = "Invalid"
    TARGET_ASLEEP = "TargetAsleep"
    """The target may change only while it is awake."""
    FAILED = "Failed"
    """The store did not take it; it is tried again."""


@dataclass(frozen=True, slots=True)
class SavedLately:
    """What the ledger has of the last days, up to and including `until`."""

    until: str
    asleep_seconds: int = 0
    amount: str = ""
    """Net, with two digits; empty where no price is known."""
    currency: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The status of an object, written only if it differs from the current one."""

    ready: Readiness
    says: str
    generation: int
    """Of the object, when this was true."""
    target: str = ""
    phase: str = ""
    since: int = 0
    """When the phase began, as far as is known."""
    why_awake: str = ""
    saved: SavedLately | None = None
    transitions: tuple[tuple[str, str, str], ...] = field(default=(), compare=False)
    """Of each condition that the object has: its type, its status, and since when."""


@dataclass(frozen=True, slots=True)
class Declaration:
    ref: ObjectRef
    uid: str
    version: str
    """The version of the object that was read; its status is written on that condition."""
    generation: int
    created_at: int
    policy: Policy | None
    """As it should be, without id and version; None where it cannot be understood."""
    problem: str = ""
    """Why not."""
    told: Report | None = None
    """What the object says now; None where nobody has told it anything, or it has no status."""
