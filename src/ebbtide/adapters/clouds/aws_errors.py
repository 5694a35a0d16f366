"""What an error of AWS means to a caller: a definite no, no capacity, no answer; each with the next step.

A definite "no" is told apart from no answer. After the first, another offer may be tried; after the
second, only the same request may be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ebbtide.errors import EbbtideError, Final, NoCapacity, OfferRefused, Retryable, Throttled, Unanswered
from ebbtide.outgoing import refusal_in

NO_CAPACITY = {
    "InsufficientInstanceCapacity": "EC2 has no capacity for it now",
    "InsufficientHostCapacity": "EC2 has no capacity for it now",
    "InsufficientCapacity": "EC2 has no capacity for it now",
    "InsufficientFreeAddressesInSubnet": "its subnet has no free address: enlarge it or name another",
    "SpotMaxPriceTooLow": "the spot price is above the on-demand price",
    "MaxSpotInstanceCountExceeded": "the account's spot limit is reached: ask AWS for a higher quota",
    "VcpuLimitExceeded": "the account's vCPU limit is reached: ask AWS for a higher quota",
    "InstanceLimitExceeded": "the account's instance limit is reached: ask AWS for a higher quota",
}
OF_THE_OFFER = frozenset({"InvalidInstanceType", "Unsupported"})
"""About type and zone, or how they go with the image: always."""
OF_PARAMETERS = frozenset({"InvalidParameterCombination", "InvalidParameterValue", "UnsupportedOperation"})
"""Only where the message says so: it may as well be about a profile or a network, which all offers share."""
NAMES_THE_OFFER = ("architecture", "instance type", "availability zone")
THROTTLED = frozenset(
    {
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
    }
)
_CREDENTIALS = "check the credentials of this process"
NEXT_STEPS = {
    "UnauthorizedOperation": "allow it in the IAM policy (see deploy/lambda/template.yaml)",
    "AccessDenied": "allow it in the IAM policy (see deploy/lambda/template.yaml)",
    "AccessDeniedException": "allow it in the IAM policy (see deploy/lambda/template.yaml)",
    "AuthFailure": _CREDENTIALS,
    "InvalidClientTokenId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "UnrecognizedClientException": _CREDENTIALS,
    "ExpiredToken": f"{_CREDENTIALS}: they have expired",
    "ExpiredTokenException": f"{_CREDENTIALS}: they have expired",
    "RequestExpired": "set the clock of this machine, or renew the credentials",
    "OptInRequired": "finish the sign-up of this AWS account",
    "PendingVerification": "wait until AWS has verified this account",
    "InvalidAMIID.NotFound": "correct aws.image: there is no such AMI in this region",
    "InvalidAMIID.Malformed": "correct aws.image: it is not an AMI id",
    "InvalidAMIID.Unavailable": "correct aws.image: that AMI was deregistered",
    "InvalidSubnetID.NotFound": "correct aws.subnets",
    "InvalidGroup.NotFound": "correct aws.security_groups",
    "InvalidKeyPair.NotFound": "correct aws.key_name",
    "InvalidLaunchTemplateName.NotFoundException": "correct aws.launch_template",
    "InvalidLaunchTemplateId.NotFound": "correct aws.launch_template",
    "InvalidParameterValue": "correct the type, zone or profile that it names",
    "OperationNotPermitted": "switch off its termination protection, or remove it by hand",
    "ParameterNotFound": "make that parameter in SSM, or correct its name",
    "AWS.SimpleQueueService.NonExistentQueue": "correct aws.queue_url",
    "QueueDoesNotExist": "correct aws.queue_url",
}
LOST = frozenset({"InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable", "RequestTimeout"})
GONE = frozenset({"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"})
_WAITS = frozenset({"IncorrectInstanceState", "IncorrectState", "ConcurrentTagAccess"})
_SERVER_ERROR = 500


class AwsAnswered(Exception):
    """A code that the caller wants to see for itself."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@contextmanager
def translated(what: str, wanted: frozenset[str] = frozenset()) -> Iterator[None]:
    """`wanted` codes come out as `AwsAnswered`, all others as errors of Ebbtide."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in wanted:
            raise AwsAnswered(code) from error
        raise meaning(error.response, what) from error
    except BotoCoreError as error:
        raise _unanswered(error, what) from error
    except ResponseParserError as error:
        raise Unanswered(f"{what}: the answer could not be read: it may have been done") from error


def meaning(response: Mapping[str, Any], what: str) -> EbbtideError:
    told = response.get("Error", {})
    code, message = told.get("Code", ""), _shortened(told.get("Message", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in NO_CAPACITY:
        return NoCapacity(f"{what}: {NO_CAPACITY[code]} ({code})")
    if _is_about_the_offer(code, message):
        return OfferRefused(f"{what}: EC2 refuses this type there, or with this image ({code}): {message}")
    if code in THROTTLED:
        return Throttled(f"{what}: AWS is throttling ({code}); nothing was done, it is tried again later")
    if code in LOST or status >= _SERVER_ERROR:
        return Unanswered(f"{what}: AWS failed ({code or status}): it may have been done")
    if code in _WAITS:
        return Retryable(f"{what}: not now ({code}): {message}")
    step = NEXT_STEPS.get(code, "")
    return Final(f"{what}: refused ({code}): {message}", step=step)


def _is_about_the_offer(code: str, message: str) -> bool:
    said = message.lower()
    return code in OF_THE_OFFER or (code in OF_PARAMETERS and any(name in said for name in NAMES_THE_OFFER))


def _shortened(message: str) -> str:
    """Without the long encoded part that AWS adds to a refusal."""
    text = message.partition("Encoded authorization failure message")[0].strip()
    return text if text.endswith(".") or not text else f"{text}."


def _unanswered(error: Exception, what: str) -> EbbtideError:
    from botocore import exceptions

    if refused := refusal_in(error):
        return Final(f"{what}: {refused}.", step="correct the aws section of the configuration")
    if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        return Final(f"{what}: no AWS credentials were found.", step="set AWS_PROFILE, or give a role")
    if isinstance(error, exceptions.EndpointConnectionError | exceptions.ConnectTimeoutError):
        return Retryable(f"{what}: AWS cannot be reached ({error}); nothing was done")
    if isinstance(error, exceptions.HTTPClientError | exceptions.SSLError):
        return Unanswered(f"{what}: no answer ({error}): it may have been done")
    return Final(f"{what}: {error}.", step="correct the aws section of the configuration")
