"""EC2 as a cloud: one instance for each slot, found again by its token and tags.

A launch is idempotent by a ClientToken that is derived from the slot's key. Its tags are set in the same
call, so no instance is ever without them. boto3 does not retry: we must know whether a reply was lost.
Nothing without the cluster's tag is ever terminated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebbtide.adapters.clouds import identity
from ebbtide.adapters.clouds.aws_errors import GONE, AwsAnswered, translated
from ebbtide.adapters.clouds.joins import Join, ec2_metadata, user_data
from ebbtide.errors import ConfigError, Final, NotOurs, Retryable, Unanswered
from ebbtide.extras import how_to_add
from ebbtide.model.effect import Launch
from ebbtide.model.operation import Slot
from ebbtide.model.pool import Pool
from ebbtide.model.snapshot import Instance, InstanceState, Market
from ebbtide.outgoing import guarded_aws

MISMATCH = frozenset({"IdempotentParameterMismatch"})
CONNECT_SECONDS = 3
PAGE = 1000

_STATES = {
    "pending": InstanceState.PENDING,
    "running": InstanceState.RUNNING,
    # Stopped is neither running nor going: it still exists and must be terminated to be gone.
    "stopping": InstanceState.PENDING,
    "stopped": InstanceState.PENDING,
    "shutting-down": InstanceState.TERMINATING,
    "terminated": InstanceState.GONE,
}


@dataclass(frozen=True, slots=True)
class Ec2Settings:
    """The `aws` section of the configuration."""

    cluster: str
    pools: tuple[Pool, ...]
    join: Join | None = None
    """None where the image or the launch template joins the cluster by itself."""
    image: str = ""
    launch_template: str = ""
    """Id or name, with `:VERSION` where it is not the default one."""
    subnets: Mapping[str, str] = field(default_factory=dict)
    """Subnet of each zone; without any, the default one of the zone is taken."""
    security_groups: tuple[str, ...] = ()
    instance_profile: str = ""
    key_name: str = ""

    def __post_init__(self) -> None:
        if not (self.image or self.launch_template):
            raise ConfigError("EC2 needs an AMI: set aws.image or aws.launch_template")
        if self.join is not None:
            ec2_metadata("", self.join)


@dataclass(frozen=True, slots=True)
class _Ours:
    """An instance of which EC2 has just shown the tag of this cluster. Only such a one can be terminated."""

    id: str

    @classmethod
    def among(
        cls, shown: Iterable[Mapping[str, Any]], instance_id: str, cluster: str, what: str
    ) -> _Ours | None:
        """None if it is going or gone, and nothing is left to be done."""
        raw = next((each for each in shown if each["InstanceId"] == instance_id), None)
        # Crash table: describe-lags. Not to be shown says nothing about whose it is: the id comes from a Node
        # object, which others can write.
        if raw is None:
            raise Retryable(
                f"{what}: EC2 does not show it now, so nobody can tell whose it is; nothing was done, it is "
                "tried again later"
            )
        if _STATES.get(raw["State"]["Name"]) in (InstanceState.TERMINATING, InstanceState.GONE):
            return None
        if _tags(raw).get(identity.CLUSTER) != cluster:
            raise NotOurs(
                f"{what}: it does not carry the tag {identity.CLUSTER}={cluster}.",
                step="add the tag, or remove the instance by hand",
            )
        return cls(instance_id)


class Ec2Cloud:
    def __init__(self, client: Any, settings: Ec2Settings) -> None:
        self._client = client
        self._settings = settings
        self._of_cluster = {"Name": f"tag:{identity.CLUSTER}", "Values": [settings.cluster]}

    def launch(self, effect: Launch) -> Instance:
        slot = effect.slot
        request = run_request(effect, self._settings)
        try:
            with translated(f"launch of {_offer(slot)}", MISMATCH):
                answer = self._client.run_instances(**request)
        except AwsAnswered as mismatch:
            # The token was used with other settings: what it made then is what this slot has.
            return self._made_before(slot, mismatch)
        return self._read(answer["Instances"][0], slot)

    def terminate(self, instance_id: str) -> None:
        what = f"termination of {instance_id}"
        try:
            with translated(what, GONE):
                found = self._client.describe_instances(InstanceIds=[instance_id])
                ours = _Ours.among(_instances(found), instance_id, self._settings.cluster, what)
                if ours is not None:
                    self._end(ours)
        # Gone already, which is what was asked for.
        except AwsAnswered:
            return

    def _end(self, ours: _Ours) -> None:
        self._client.terminate_instances(InstanceIds=[ours.id])

    def list_instances(self) -> Sequence[Instance]:
        return tuple(self._read(raw) for raw in self._described("the list of instances", self._of_cluster))

    def close(self) -> None:
        self._client.close()

    def _made_before(self, slot: Slot, mismatch: AwsAnswered) -> Instance:
        what = f"launch of {_offer(slot)}"
        of_slot = {"Name": f"tag:{identity.SLOT}", "Values": [slot.key]}
        for raw in self._described(what, self._of_cluster, of_slot):
            return self._read(raw, slot)
        # The token was used, so something was made: it is only not shown yet.
        raise Unanswered(
            f"{what}: its token was used with other settings ({mismatch.code}), and what it made then is "
            "not shown yet.",
            step="nothing, it is checked once more",
        )

    def _described(self, what: str, *filters: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        with translated(what):
            pages = self._client.get_paginator("describe_instances").paginate(
                Filters=list(filters), PaginationConfig={"PageSize": PAGE}
            )
            for page in pages:
                yield from _instances(page)

    def _read(self, raw: Mapping[str, Any], slot: Slot | None = None) -> Instance:
        """Key and pool come from the slot where a launch is answered: tags may be shown a little later."""
        tags = _tags(raw)
        zone = raw.get("Placement", {}).get("AvailabilityZone") or (slot.zone if slot else "")
        spot = raw.get("InstanceLifecycle") == "spot" or (slot is not None and slot.market is Market.SPOT)
        return Instance(
            id=raw["InstanceId"],
            provider_id=f"aws:///{zone}/{raw['InstanceId']}",
            key=slot.key if slot else tags.get(identity.SLOT, ""),
            pool=slot.pool if slot else tags.get(identity.POOL, ""),
            zone=zone,
            instance_type=raw.get("InstanceType", ""),
            market=Market.SPOT if spot else Market.ON_DEMAND,
            state=_STATES.get(raw["State"]["Name"], InstanceState.PENDING),
            launched_at=int(raw["LaunchTime"].timestamp()) if "LaunchTime" in raw else 0,
            private_ip=raw.get("PrivateIpAddress", ""),
            launch_hash=tags.get(identity.LAUNCH_HASH, ""),
        )


def run_request(effect: Launch, settings: Ec2Settings) -> dict[str, Any]:
    """The call, a pure function of slot and settings: a repeat must be the same to the letter."""
    slot, tags = effect.slot, identity.tags_of(effect, settings.cluster, settings.pools)
    named = [{"Key": key, "Value": value} for key, value in tags.items()]
    name = {"Key": "Name", "Value": identity.server_name(settings.cluster, slot.pool, slot.key)}
    request: dict[str, Any] = {
        "ClientToken": identity.client_token(settings.cluster, slot.key),
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceType": slot.instance_type,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 1,
        },
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": [name, *named]} for kind in ("instance", "volume")
        ],
        **_place(slot, settings),
        **_image(settings),
    }
    if slot.market is Market.SPOT:
        options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        request["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": options}
    if settings.join is not None:
        metadata = ec2_metadata(slot.zone, settings.join)
        request["UserData"] = user_data(settings.join, metadata, slot, settings.pools)
    return request


def _place(slot: Slot, settings: Ec2Settings) -> dict[str, Any]:
    if not settings.subnets:
        return {"Placement": {"AvailabilityZone": slot.zone}}
    if slot.zone not in settings.subnets:
        raise Final(f"no subnet is known for zone {slot.zone}.", step="add it to aws.subnets")
    return {"SubnetId": settings.subnets[slot.zone]}


def _image(settings: Ec2Settings) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    if settings.launch_template:
        name, _, version = settings.launch_template.partition(":")
        by = "LaunchTemplateId" if name.startswith("lt-") else "LaunchTemplateName"
        wanted["LaunchTemplate"] = {by: name, "Version": version or "$Default"}
    if settings.image:
        wanted["ImageId"] = settings.image
    if settings.security_groups:
        wanted["SecurityGroupIds"] = list(settings.security_groups)
    if settings.instance_profile:
        by = "Arn" if settings.instance_profile.startswith("arn:") else "Name"
        wanted["IamInstanceProfile"] = {by: settings.instance_profile}
    if settings.key_name:
        wanted["KeyName"] = settings.key_name
    return wanted


def make_client(service: str, region: str = "", endpoint: str = "", timeout_seconds: float = 30) -> Any:
    """A client that repeats nothing by itself, and whose two calls fit into `timeout_seconds`."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise ConfigError(f"boto3 is not installed; nothing was touched. Run: {how_to_add('aws')}") from error
    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=CONNECT_SECONDS,
        read_timeout=max(1.0, timeout_seconds / 2 - CONNECT_SECONDS),
        user_agent_extra="ebbtide",
    )
    from botocore.exceptions import NoRegionError

    try:
        return guarded_aws(
            boto3.client(service, region_name=region or None, endpoint_url=endpoint or None, config=config)
        )
    except NoRegionError as error:
        raise ConfigError("no AWS region is set: set aws.region or AWS_REGION") from error
    except ValueError as error:
        raise ConfigError(f"aws.endpoint is not understood: {error}") from error


def _offer(slot: Slot) -> str:
    return f"{slot.instance_type} ({slot.market}) in {slot.zone} for slot {slot.key}"


def _instances(page: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for reservation in page["Reservations"]:
        yield from reservation["Instances"]


def _tags(raw: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in raw.get("Tags", ())}
