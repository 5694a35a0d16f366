"""What an error of boto3 means to a caller, in one sentence with the next step.

As everywhere: DynamoDB said no, or was never reached (nothing was done), or did not say (`Unanswered`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ebbtide.errors import Conflict, EbbtideError, Retryable, StoreUnusable, Throttled, Unanswered
from ebbtide.outgoing import refusal_in

_BUSY = frozenset(
    {
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
_NO_ACCESS = frozenset(
    {
        "AccessDeniedException",
        "ExpiredTokenException",
        "IncompleteSignatureException",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "UnrecognizedClientException",
    }
)
_BUSY_REASONS = frozenset({"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError"})
_SERVER_ERROR = 500


class ConditionFailed(Conflict):
    """A condition did not hold. `at` are the places in the transaction that said so."""

    def __init__(self, at: frozenset[int], item: Any = None) -> None:
        super().__init__("the condition of a write did not hold")
        self.at = at
        self.item = item


@contextmanager
def translated(where: str) -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise _answered(error.response, where, str(error)) from error
    except BotoCoreError as error:
        raise _unanswered(error, where) from error


def refuse_cut_answers(client: Any) -> Any:
    """The client, for which an answer that was cut off is none. A connection that ends within the headers
    makes an answer without a body, which boto3 takes for an empty one: a record that is not there."""
    client.meta.events.register("before-parse.dynamodb", _refuse_cut)
    return client


def _refuse_cut(response_dict: Mapping[str, Any], **_: object) -> None:
    from botocore.exceptions import ResponseStreamingError

    if not response_dict["body"].rstrip().endswith(b"}"):
        raise ResponseStreamingError(error="the answer was cut off")


def _answered(response: Any, where: str, says: str) -> EbbtideError:
    code = response.get("Error", {}).get("Code", "")
    if code == "ConditionalCheckFailedException":
        return ConditionFailed(frozenset({0}), response.get("Item"))
    if code == "TransactionCanceledException":
        return _cancelled(response.get("CancellationReasons", ()), where)
    if code in _BUSY:
        return Throttled(f"{where} is busy ({code}); nothing was done, try again later")
    if code == "ResourceNotFoundException":
        return StoreUnusable(f"{where}: a table is missing: run `ebbtide db create`, or correct its name")
    if code in _NO_ACCESS:
        return StoreUnusable(
            f"{where}: access is denied ({code}): check the credentials, and that their policy allows "
            "GetItem, PutItem, UpdateItem, DeleteItem, ConditionCheckItem, Query, DescribeTable on the tables"
        )
    if response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= _SERVER_ERROR:
        return Unanswered(f"{where} failed ({code}): it may have been done")
    return StoreUnusable(f"{where} refused ({says}): nothing was done; run `ebbtide db check`")


def _cancelled(reasons: Any, where: str) -> EbbtideError:
    codes = [reason.get("Code", "None") for reason in reasons]
    failed = frozenset(place for place, code in enumerate(codes) if code == "ConditionalCheckFailed")
    if failed:
        return ConditionFailed(failed)
    if _BUSY_REASONS.intersection(codes):
        return Throttled(f"{where} is busy with another transaction; nothing was done, try again later")
    said = "; ".join(reason.get("Message") or "" for reason in reasons if reason.get("Message"))
    return StoreUnusable(f"{where} refused a transaction ({said or codes}): nothing was done")


def _unanswered(error: Exception, where: str) -> EbbtideError:
    from botocore import exceptions

    if refused := refusal_in(error):
        return StoreUnusable(f"{where}: {refused}: correct store.url")
    if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        return StoreUnusable(f"{where}: no AWS credentials were found: set AWS_PROFILE, or the key variables")
    if isinstance(error, exceptions.NoRegionError):
        return StoreUnusable(f"{where}: no AWS region is set: set AWS_REGION, or add ?region= to store.url")
    if isinstance(error, exceptions.SSLError | exceptions.InvalidRegionError):
        return StoreUnusable(f"{where}: {error}: correct store.url")
    if isinstance(error, exceptions.EndpointConnectionError | exceptions.ConnectTimeoutError):
        return Retryable(f"{where} cannot be reached ({error}): check the network, region and endpoint")
    if isinstance(error, exceptions.HTTPClientError):
        return Unanswered(f"{where} did not answer ({error}): it may have been done")
    return StoreUnusable(f"{where}: {error}: correct store.url or the AWS configuration")
