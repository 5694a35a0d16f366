"""Hetzner Cloud: one server for each slot, whose name is derived from the slot's key; and what an error of
its API means to a caller, in one sentence with the next step.

Names are unique in a project, so a repeated launch is refused, and the server that has the name is the
answer. Nothing without the cluster's label is ever deleted. hcloud repeats nothing by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ebbtide.adapters.clouds import identity
from ebbtide.adapters.clouds.identity import label_value, read_label_value
from ebbtide.adapters.clouds.joins import Join, hetzner_metadata, user_data
from ebbtide.errors import (
    ConfigError,
    EbbtideError,
    Final,
    NoCapacity,
    NotOurs,
    OfferRefused,
    Retryable,
    Throttled,
    Unanswered,
)
from ebbtide.extras import how_to_add
from ebbtide.model.effect import Launch
from ebbtide.model.operation import Slot
from ebbtide.model.pool import Pool
from ebbtide.model.snapshot import Instance, InstanceState, Market
from ebbtide.outgoing import guarded
from ebbtide.redact import keep

if TYPE_CHECKING:
    from hcloud import Client
    from hcloud.servers.client import BoundServer

NO_CAPACITY = {
    "resource_unavailable": "Hetzner has no capacity for it now",
    "placement_error": "the placement group is full: give one more in hetzner.placement_groups",
    "resource_limit_exceeded": "the project's limit is reached: ask Hetzner for a higher one",
    "server_limit_exceeded": "the project's limit is reached: ask Hetzner for a higher one",
    "primary_ip_limit_exceeded": "the project's limit of addresses is reached: ask Hetzner for a higher one",
    "no_space_left_in_location": "Hetzner has no room left there",
}
OF_THE_OFFER = ("server type", "architecture")
"""Hetzner refuses it with the code of any wrong input: only the message tells that another offer may do."""
NEXT_STEPS = {
    "unauthorized": "correct the token in HCLOUD_TOKEN: it must belong to the project and be able to write",
    "forbidden": "give a token that may write",
    "token_readonly": "give a token that may write",
    "protected": "switch off its deletion protection, or remove it by hand",
    "invalid_input": "correct the type, image, location, network or key that it names",
    "not_found": "correct the image, network, placement group or key that it names",
}
_WAITS = frozenset({"locked", "conflict", "maintenance"})
_LOST = frozenset({"service_error", "server_error", "unknown_error", "timeout", "bad_gateway", "unavailable"})
_THROTTLED = frozenset({"rate_limit_exceeded", "429"})
_SERVER_ERROR = 500


class HetznerAnswered(Exception):
    """A code that the caller wants to see for itself."""


@contextmanager
def translated(what: str, wanted: frozenset[str] = frozenset()) -> Iterator[None]:
    """`wanted` codes come out as `HetznerAnswered`, all others as errors of Ebbtide."""
    import requests
    from hcloud import APIException

    try:
        yield
    except APIException as error:
        if str(error.code) in wanted:
            raise HetznerAnswered(str(error.code)) from error
        raise meaning(str(error.code), error.message, what) from error
    except requests.exceptions.ConnectTimeout as error:
        raise Retryable(f"{what}: Hetzner cannot be reached; nothing was done") from error
    except requests.exceptions.ConnectionError as error:
        if _never_sent(error):
            raise Retryable(f"{what}: Hetzner cannot be reached; nothing was done") from error
        raise Unanswered(f"{what}: the connection was lost: it may have been done") from error
    except requests.exceptions.RequestException as error:
        raise Unanswered(f"{what}: no answer ({type(error).__name__}): it may have been done") from error
    except (KeyError, TypeError, ValueError) as error:  # hcloud met an answer it cannot read
        raise Unanswered(f"{what}: the answer could not be read: it may have been done") from error


def _never_sent(error: Exception) -> bool:
    from urllib3.exceptions import MaxRetryError, NewConnectionError

    inner = error.args[0] if error.args else None
    return isinstance(inner, MaxRetryError) and isinstance(inner.reason, NewConnectionError)


def meaning(code: str, message: str, what: str) -> EbbtideError:
    if code in NO_CAPACITY:
        return NoCapacity(f"{what}: {NO_CAPACITY[code]} ({code})")
    wrong = code == "invalid_input" and any(said in message.lower() for said in OF_THE_OFFER)
    if wrong or code == "invalid_server_type":
        return OfferRefused(
            f"{what}: Hetzner refuses this type there, or with this image ({code}): {message}."
        )
    if code in _THROTTLED:
        return Throttled(
            f"{what}: the API's rate limit is reached; nothing was done, it is tried again later"
        )
    if code in _WAITS:
        return Retryable(f"{what}: not now ({code}): {message}")
    if code in _LOST or (code.isdigit() and int(code) >= _SERVER_ERROR):
        return Unanswered(f"{what}: Hetzner failed ({code}): it may have been done")
    return Final(f"{what}: refused ({code}): {message}.", step=NEXT_STEPS.get(code, ""))


TAKEN = frozenset({"uniqueness_error"})
FULL = frozenset({"placement_error"})
GROUP_SIZE = 10
"""Servers that Hetzner puts into one placement group of type spread, at most."""
GONE = frozenset({"not_found"})
CONNECT_SECONDS = 3
API = "https://api.hetzner.cloud/v1"

_STATES = {
    "initializing": InstanceState.PENDING,
    "starting": InstanceState.PENDING,
    "deleting": InstanceState.TERMINATING,
}
"""Any other status is that of a server that exists and is paid for, on or off."""


@dataclass(frozen=True, slots=True)
class HetznerSettings:
    """The `hetzner` section of the configuration."""

    cluster: str
    pools: tuple[Pool, ...]
    image: str
    """Name of an image, or id of a snapshot."""
    join: Join | None = None
    """None where the image joins the cluster by itself."""
    networks: tuple[int, ...] = ()
    ssh_keys: tuple[str, ...] = ()
    firewalls: tuple[int, ...] = ()
    placement_groups: tuple[int, ...] = ()
    """A group holds few servers, so a large cluster needs several: the emptiest is taken."""
    public_ipv4: bool = True

    def __post_init__(self) -> None:
        if not self.image:
            raise ConfigError("Hetzner needs an image: set hetzner.image")


class HetznerCloud:
    def __init__(self, client: Client, settings: HetznerSettings) -> None:
        self._client = client
        self._settings = settings
        self._of_cluster = f"{identity.CLUSTER}={label_value(settings.cluster)}"
        self._in_group: Counter[int] = Counter()
        """Servers of ours in each placement group, as last listed."""

    def launch(self, effect: Launch) -> Instance:
        slot = effect.slot
        what = f"launch of {slot.instance_type} in {slot.zone} for slot {slot.key}"
        if slot.market is Market.SPOT:
            raise NoCapacity(f"{what}: Hetzner has no spot market")
        group = min(self._settings.placement_groups, key=lambda number: self._in_group[number], default=0)
        self._in_group[group] += 1
        request = create_request(effect, self._settings, group)
        try:
            with translated(what, TAKEN | FULL):
                return self._read(self._client.servers.create(**request).server, slot)
        except HetznerAnswered as answer:
            # The group is full: that says nothing about the capacity for this type.
            if str(answer) in FULL:
                self._in_group[group] += GROUP_SIZE  # so another is asked until the next look
                raise meaning(str(answer), "", what) from answer
            return self._adopted(request["name"], slot, what)

    def terminate(self, instance_id: str) -> None:
        what = f"deletion of {instance_id}"
        if not instance_id.isdigit():
            return
        try:
            with translated(what, GONE):
                server = self._client.servers.get_by_id(int(instance_id))
                # The id comes from a Node object, which others can write.
                if not self._is_ours(server):
                    raise NotOurs(
                        f"{what}: it does not carry the label {self._of_cluster}.",
                        step="add the label, or delete the server by hand",
                    )
                if server.status != "deleting":
                    server.delete()
        except HetznerAnswered:
            return

    def list_instances(self) -> Sequence[Instance]:
        with translated("the list of servers"):
            found = self._client.servers.get_all(label_selector=self._of_cluster)
        groups = (server.placement_group for server in found)
        self._in_group = Counter(group.id for group in groups if group is not None and group.id)
        return tuple(self._read(server) for server in found)

    def close(self) -> None:
        self._client._client._session.close()  # hcloud has no public way to close its connections

    def _adopted(self, name: str, slot: Slot, what: str) -> Instance:
        """The server that has the slot's name: made by an earlier try, or by somebody else."""
        with translated(what):
            server = self._client.servers.get_by_name(name)
        if server is None:
            # An earlier try of ours may have made it: a new name could launch a second one.
            raise Unanswered(f"{what}: the name {name} is taken, but its server is not shown yet")
        key = read_label_value((server.labels or {}).get(identity.SLOT, ""))
        if not self._is_ours(server) or key != slot.key:
            says = f"{what}: the server {name} was made by somebody else."
            raise NotOurs(says, step="rename that server")
        return self._read(server, slot)

    def _is_ours(self, server: BoundServer) -> bool:
        return (server.labels or {}).get(identity.CLUSTER) == label_value(self._settings.cluster)

    def _read(self, server: BoundServer, slot: Slot | None = None) -> Instance:
        labels = server.labels or {}
        private = [net.ip for net in server.private_net or () if net.ip]
        public = server.public_net.ipv4 if server.public_net else None
        return Instance(
            id=str(server.id),
            provider_id=f"hcloud://{server.id}",
            key=read_label_value(labels.get(identity.SLOT, "")),
            pool=read_label_value(labels.get(identity.POOL, "")),
            zone=(server.location.name if server.location else "") or (slot.zone if slot else ""),
            instance_type=(server.server_type.name if server.server_type else "") or "",
            state=_STATES.get(server.status or "", InstanceState.RUNNING),
            launched_at=int(server.created.timestamp()) if server.created else 0,
            private_ip=private[0] if private else (public.ip or "" if public else ""),
            launch_hash=labels.get(identity.LAUNCH_HASH, ""),
        )


def create_request(effect: Launch, settings: HetznerSettings, placement_group: int = 0) -> dict[str, Any]:
    """The call, a pure function of slot, settings and group; what makes it unique is the name alone."""
    from hcloud.firewalls import Firewall
    from hcloud.images import Image
    from hcloud.locations import Location
    from hcloud.networks import Network
    from hcloud.placement_groups import PlacementGroup
    from hcloud.server_types import ServerType
    from hcloud.servers import ServerCreatePublicNetwork
    from hcloud.ssh_keys import SSHKey

    slot, image = effect.slot, settings.image
    tags = identity.tags_of(effect, settings.cluster, settings.pools)
    request: dict[str, Any] = {
        "name": identity.server_name(settings.cluster, slot.pool, slot.key),
        "server_type": ServerType(name=slot.instance_type),
        "image": Image(id=int(image)) if image.isdigit() else Image(name=image),
        "location": Location(name=slot.zone),
        "labels": {key: label_value(value) for key, value in tags.items()},
        "ssh_keys": [SSHKey(name=name) for name in settings.ssh_keys],
        "networks": [Network(id=number) for number in settings.networks],
        "firewalls": [Firewall(id=number) for number in settings.firewalls],
        "public_net": ServerCreatePublicNetwork(enable_ipv4=settings.public_ipv4, enable_ipv6=True),
    }
    if placement_group:
        request["placement_group"] = PlacementGroup(id=placement_group)
    if settings.join is not None:
        metadata = hetzner_metadata(settings.join)
        request["user_data"] = user_data(settings.join, metadata, slot, settings.pools)
    return request


def make_client(token: str, endpoint: str = "", timeout_seconds: float = 30) -> Client:
    """A client whose two calls fit into `timeout_seconds`."""
    try:
        from hcloud import Client
    except ImportError as error:
        raise ConfigError(
            f"hcloud is not installed; nothing was touched. Run: {how_to_add('hetzner')}"
        ) from error
    if not token:
        raise ConfigError("there is no Hetzner token: set HCLOUD_TOKEN")
    read_seconds = max(1.0, timeout_seconds / 2 - CONNECT_SECONDS)
    client = Client(keep(token), endpoint or API, "ebbtide", timeout=(CONNECT_SECONDS, read_seconds))
    # It would sleep for minutes and hide that a reply was lost; the engine repeats, and knows why.
    client._client._retry_max_retries = 0
    adapters: Mapping[str, Any] = client._client._session.adapters
    for adapter in adapters.values():
        guarded(adapter.poolmanager)
    return client
