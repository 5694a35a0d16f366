"""What the API works with: the record and log of one cluster, its last observation, its policies, and its
tokens.

A token has one scope: `admin` includes `wake`, and `wake` includes `read`. Tokens are stored as SHA-256
digests and compared in constant time, always all of them. Several may be valid at once, so one can be
rotated without a gap.

If a source cannot be read, its last values stay, and `stale` says since when: a cluster that does not
answer has not lost its nodes. The problems stay in the snapshot, so nothing acts on old values.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

from ebbtide.config.api import ApiKeys, TokenKeys, beyond_loopback, webhook_secrets
from ebbtide.engine.outages import Origin, unread_in
from ebbtide.engine.ports import observe
from ebbtide.errors import ConfigError
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, NodeUse, Snapshot
from ebbtide.ports import Clock, Store

if TYPE_CHECKING:
    from ebbtide.adapters.metrics_export.serving import Health
    from ebbtide.config import Config
    from ebbtide.engine.ports import Ports
    from ebbtide.engine.scale_to_zero.scaling import Scaling


class Scope(IntEnum):
    READ = 1
    WAKE = 2
    ADMIN = 3

    @property
    def spoken(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Token:
    name: str
    scope: Scope
    digest: str
    """SHA-256 of the token, in hex."""
    expires_at: int | None = None


def new_token() -> str:
    """Long enough that guessing and salting are next to the point."""
    return f"ebb_{secrets.token_urlsafe(32)}"


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def find_token(presented: str, tokens: Sequence[Token]) -> Token | None:
    """The token that was presented; also one that has expired, which the caller must look at."""
    digest = digest_of(presented)
    found = [token for token in tokens if hmac.compare_digest(digest, token.digest.lower())]
    # Of two entries with one digest the one that is valid longer counts.
    return max(found, key=_valid_until, default=None)


def _valid_until(token: Token) -> float:
    return float("inf") if token.expires_at is None else token.expires_at


def expired(token: Token, now: float) -> bool:
    return token.expires_at is not None and token.expires_at <= now


LOOK_SECONDS = 5.0
Uses = Mapping[str, NodeUse]
ReadUse = Callable[[Sequence[Node]], Uses]


def nobody_knows(_: Sequence[Node]) -> Uses:
    return {}


@dataclass(frozen=True, slots=True)
class Stale:
    """A source that cannot be read now. `at` is when it was last read; 0 if it never was."""

    origin: Origin
    at: int
    problem: str


@dataclass(frozen=True, slots=True)
class Seen:
    snapshot: Snapshot
    stale: tuple[Stale, ...] = ()
    last_cpu: float | None = None
    """The CPU use that was known last; also where it is unknown now."""
    uses: Uses = field(default_factory=dict)
    """What each node was last known to use, by its UID; one that was never measured is missing."""

    def never(self, origin: Origin) -> bool:
        """Whether nothing is known of it at all: then a count of it is unknown, not 0."""
        return any(each.origin is origin and not each.at for each in self.stale)


class Sight:
    """Looks again when the last look is older than a few seconds: however many pages are open, the cluster
    and the cloud are asked no more often than that."""

    def __init__(
        self,
        look: Callable[[], Snapshot],
        clock: Clock,
        seconds: float = LOOK_SECONDS,
        read_use: ReadUse = nobody_knows,
    ) -> None:
        self._look = look
        self._read_use = read_use
        self._clock = clock
        self._seconds = seconds
        self._lock = threading.Lock()
        self._seen: Seen | None = None
        self._at = 0.0
        self._known = Snapshot(0)
        self._read_at: dict[Origin, int] = {}
        self._uses: Uses = {}

    def snapshot(self) -> Snapshot:
        return self.seen().snapshot

    def seen(self) -> Seen:
        with self._lock:
            now = self._clock.now()
            if self._seen is None or not 0 <= now - self._at < self._seconds:
                self._seen, self._at = self._merged(self._look()), now
            return self._seen

    def _merged(self, fresh: Snapshot) -> Seen:
        unread = unread_in(fresh, self._known)
        for origin in set(Origin) - unread.keys():
            self._read_at[origin] = fresh.at
        kept = fresh
        if Origin.CLUSTER in unread:
            kept = replace(kept, cluster=self._known.cluster, players=self._known.players)
        if Origin.CLOUD in unread:
            kept = replace(kept, instances=self._known.instances)
        self._known = kept if kept.cpu.value is not None else replace(kept, cpu=self._known.cpu)
        stale = tuple(Stale(each, self._read_at.get(each, 0), why) for each, why in unread.items())
        self._uses = self._used_in(kept)
        return Seen(kept, stale, self._known.cpu.value, self._uses)

    def _used_in(self, kept: Snapshot) -> Uses:
        """Fresh where a node has a sample, else what was known of it last, with its time: a sample that is
        missing is no use of 0. Metrics that cannot say the average are not asked once more in the same look:
        each question may cost a timeout."""
        nodes = kept.cluster.nodes
        fresh = self._read_use(nodes) if kept.cpu.value is not None else {}
        found = ((node.uid, fresh.get(node.name) or self._uses.get(node.uid)) for node in nodes)
        return {uid: use for uid, use in found if use is not None}


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that can be broken in the demo, and what that will show."""

    id: str
    name: str
    says: str


@dataclass(frozen=True, slots=True)
class SituationLine:
    says: str
    at: int
    """When it was reached; 0 until then."""


@dataclass(frozen=True, slots=True)
class Survived:
    """A fault that was made, and how far its answer is."""

    fault_id: str
    name: str
    explains: str
    began_at: int
    ended_at: int
    """0 while it is being answered."""
    lines: tuple[SituationLine, ...]


class Demo(Protocol):
    """What the demo lets a person do beyond looking."""

    says: str
    faults: tuple[Fault, ...]

    def speed(self) -> float:
        """Simulated seconds for each real one, now."""

    def survived(self) -> Survived | None:
        """The fault that was made last."""

    def strike(self, fault_id: str) -> str:
        """Break it, and say what was done. `NotFound` where there is no such fault."""


@dataclass(frozen=True, slots=True)
class Site:
    store: Store
    settings: Settings
    sight: Sight
    clock: Clock
    new_id: Callable[[], str]
    scaling: Scaling | None = None
    tokens: tuple[Token, ...] = ()
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
    """Names under which it may be asked for. A page of another site that had its name point here would
    ask under that name."""
    open_reading: bool = False
    """Whether reading needs no token; only where nobody but this machine can reach it."""
    webhook_secrets: tuple[str, ...] = ()
    rate_per_minute: int = 600
    wakes_per_minute: int = 120
    max_holds: int = 500
    max_body_bytes: int = 256 * 1024
    kind: str = ""
    demo: Demo | None = None
    metrics: Callable[[], tuple[bytes, str]] | None = None
    """The text of `/metrics` and its media type."""
    healthy: Callable[[], str] = field(default=lambda: "")
    """What is wrong with the process; empty while it is well."""
    ready: Callable[[], str] = field(default=lambda: "")


def open_site(
    config: Config,
    ports: Ports,
    listen: str,
    scaling: Scaling | None = None,
    health: Health | None = None,
) -> Site:
    """With the metrics and the health of the same process, if it has any."""
    keys, settings = config.api, config.settings
    well: dict[str, Any] = {}
    if health is not None:
        well = {"metrics": exporter(health), "healthy": health.why_dead, "ready": health.why_not_ready}
    return Site(
        store=ports.store,
        settings=settings,
        sight=Sight(
            lambda: observe(ports, settings),
            ports.clock,
            read_use=ports.uses.read_use if ports.uses is not None else nobody_knows,
        ),
        clock=ports.clock,
        new_id=ports.new_id,
        scaling=scaling,
        tokens=tuple(token_of(each) for each in keys.tokens),
        hosts=keys.hosts,
        open_reading=reads_openly(keys, listen),
        webhook_secrets=webhook_secrets(keys.webhook_secrets_file),
        rate_per_minute=keys.rate_per_minute,
        wakes_per_minute=keys.wakes_per_minute,
        max_holds=keys.max_holds,
        kind=config.cluster_kind,
        **well,
    )


def exporter(health: Health) -> Callable[[], tuple[bytes, str]]:
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    return lambda: (generate_latest(health.metrics.registry), CONTENT_TYPE_LATEST)


def reads_openly(keys: ApiKeys, listen: str) -> bool:
    return keys.open_reading and not keys.tokens and not beyond_loopback(listen)


def token_of(keys: TokenKeys) -> Token:
    expires = None
    if keys.expires:
        try:
            day = datetime.strptime(keys.expires, "%Y-%m-%d").replace(tzinfo=UTC)
        except ValueError as error:
            raise ConfigError(
                f"api.tokens: {keys.expires!r}, when {keys.name!r} expires, is not a day; nothing was "
                "touched. Write it as 2027-01-31."
            ) from error
        expires = int(day.timestamp())
    return Token(keys.name, Scope[keys.scope.upper()], keys.sha256, expires)
