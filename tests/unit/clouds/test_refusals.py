"""Which refusals are about the offer itself, so another one may do: never those about rights or quotas."""

from __future__ import annotations

import pytest

from ebbtide.adapters.clouds import aws_errors, hetzner
from ebbtide.errors import Final, NoCapacity, OfferRefused

ARCHITECTURE = (
    "The architecture 'arm64' of the specified instance type does not match the architecture 'x86_64' of the "
    "specified AMI. Specify an instance type and an AMI that have matching architectures, and try again."
)
QUOTA = (
    "You have requested more vCPU capacity than your current vCPU limit of 32 allows for the instance bucket "
    "that the specified instance type belongs to."
)
RIGHTS = "You are not authorized to perform this operation on this instance type."


@pytest.mark.parametrize(
    ("code", "message", "meant"),
    [
        ("InvalidParameterValue", ARCHITECTURE, OfferRefused),
        ("InvalidParameterCombination", ARCHITECTURE, OfferRefused),
        ("Unsupported", "The requested configuration is currently not supported.", OfferRefused),
        ("InvalidInstanceType", "The instance type is not valid", OfferRefused),
        ("UnsupportedOperation", "The instance type does not support this boot mode", OfferRefused),
        ("InvalidParameterValue", "Value (agents) for parameter iamInstanceProfile.name is invalid.", Final),
        ("InvalidParameterCombination", "Network interfaces and security groups do not go together", Final),
        ("VcpuLimitExceeded", QUOTA, NoCapacity),
        ("MaxSpotInstanceCountExceeded", QUOTA, NoCapacity),
        ("InsufficientInstanceCapacity", "no capacity for this instance type", NoCapacity),
        ("UnauthorizedOperation", RIGHTS, Final),
        ("OptInRequired", "This instance type needs a subscription", Final),
    ],
)
def test_of_ec2(code: str, message: str, meant: type[Exception]) -> None:
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    found = aws_errors.meaning(answer, "launch")
    assert type(found) is meant
    assert (message in str(found)) is (meant is not NoCapacity), "in the words of the cloud"


@pytest.mark.parametrize(
    ("code", "message", "meant"),
    [
        ("invalid_input", "image architecture arm does not match server type", OfferRefused),
        ("invalid_input", "unsupported location for server type", OfferRefused),
        ("invalid_input", "server type cpx99 not found", OfferRefused),
        ("invalid_server_type", "there is no such type", OfferRefused),
        ("invalid_input", "image debian-99 not found", Final),
        ("invalid_input", "network 7 not found", Final),
        ("forbidden", "insufficient permissions for this server type", Final),
        ("token_readonly", "server type", Final),
        ("resource_limit_exceeded", "limit of this server type reached", NoCapacity),
        ("resource_unavailable", "no capacity for this server type", NoCapacity),
    ],
)
def test_of_hetzner(code: str, message: str, meant: type[Exception]) -> None:
    found = hetzner.meaning(code, message, "launch")
    assert type(found) is meant
    assert (message in str(found)) is (meant is not NoCapacity)
