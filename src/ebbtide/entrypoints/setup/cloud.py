"""What the cloud says of the machines that are there, for `ebbtide init`: asked only where it may be, and
never needed. Nothing is changed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ebbtide.adapters.clouds.looking import (
    EksCluster,
    LaunchedWith,
    look_at_ec2,
    look_at_eks,
    look_at_hetzner,
)
from ebbtide.errors import EbbtideError

if TYPE_CHECKING:
    from ebbtide.entrypoints.setup.survey import Survey

SECONDS = 20
TOKEN, ENDPOINT = "HCLOUD_TOKEN", "HETZNER_ENDPOINT"


@dataclass(frozen=True, slots=True)
class CloudLook:
    launched: LaunchedWith = field(default_factory=LaunchedWith)
    eks: EksCluster | None = None
    says: str = ""
    """How the look went, for people."""


def look_at_cloud(found: Survey, cloud: str, region: str, cluster: str) -> CloudLook:
    try:
        return _hetzner(found) if cloud == "hetzner" else _aws(found, region, cluster)
    except ImportError as error:
        return CloudLook(says=f"the cloud was not asked: {error.name} is not installed")
    except EbbtideError as error:
        return CloudLook(says=f"the cloud did not help: {error}")


def _hetzner(found: Survey) -> CloudLook:
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        return CloudLook(says=f"the cloud was not asked: {TOKEN} is not set")
    from ebbtide.adapters.clouds.hetzner import make_client

    client = make_client(token, os.environ.get(ENDPOINT, ""), SECONDS)
    return _told(look_at_hetzner(client, set(found.instances)), None)


def _aws(found: Survey, region: str, cluster: str) -> CloudLook:
    import boto3

    from ebbtide.adapters.clouds.aws import make_client

    if not region or boto3.Session().get_credentials() is None:
        return CloudLook(says="the cloud was not asked: there are no credentials of AWS, or no region")
    launched = look_at_ec2(make_client("ec2", region, "", SECONDS), found.instances)
    eks = None
    if found.distribution == "eks":
        eks = look_at_eks(make_client("eks", region, "", SECONDS), cluster)
    return _told(launched, eks)


def _told(launched: LaunchedWith, eks: EksCluster | None) -> CloudLook:
    if launched == LaunchedWith():
        return CloudLook(launched, eks, "the cloud knows none of the workers")
    return CloudLook(launched, eks, "image, networks and groups are those of the workers, as the cloud says")
