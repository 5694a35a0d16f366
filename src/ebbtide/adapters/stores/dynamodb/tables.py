"""The tables on DynamoDB: how a store URL names them, how they are made, whether they are fit to use, and
what an error of boto3 means to a caller.

`dynamodb://STATE_TABLE/LOGS_TABLE?region=R&endpoint=URL`; each part may be left out, then the variables
STATE_TABLE and LOGS_TABLE, or the defaults, and AWS's own settings hold. Policies have a third table, named
after that of the state; only who uses policies needs it.

What an error of boto3 means to a caller, in one sentence with the next step. As everywhere: DynamoDB said
no, or was never reached (nothing was done), or did not say (`Unanswered`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ebbtide.errors import Conflict, EbbtideError, Retryable, StoreCause, StoreUnusable, Throttled, Unanswered
from ebbtide.extras import how_to_add
from ebbtide.outgoing import guarded_aws, refusal_in

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
        return StoreUnusable(
            StoreCause.NOT_MADE, f"{where}: a table is missing: run `ebbtide db create`, or correct its name"
        )
    if code in _NO_ACCESS:
        return StoreUnusable(
            StoreCause.NO_RIGHTS,
            f"{where}: access is denied ({code}): check the credentials, and that their policy "
            "allows GetItem, PutItem, UpdateItem, DeleteItem, ConditionCheckItem, Query, DescribeTable on "
            "the tables",
        )
    if response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= _SERVER_ERROR:
        return Unanswered(f"{where} failed ({code}): it may have been done")
    return StoreUnusable(
        StoreCause.REFUSED, f"{where} refused ({says}): nothing was done; run `ebbtide db check`"
    )


def _cancelled(reasons: Any, where: str) -> EbbtideError:
    codes = [reason.get("Code", "None") for reason in reasons]
    failed = frozenset(place for place, code in enumerate(codes) if code == "ConditionalCheckFailed")
    if failed:
        return ConditionFailed(failed)
    if _BUSY_REASONS.intersection(codes):
        return Throttled(f"{where} is busy with another transaction; nothing was done, try again later")
    said = "; ".join(reason.get("Message") or "" for reason in reasons if reason.get("Message"))
    return StoreUnusable(
        StoreCause.REFUSED, f"{where} refused a transaction ({said or codes}): nothing was done"
    )


def _unanswered(error: Exception, where: str) -> EbbtideError:
    from botocore import exceptions

    if refused := refusal_in(error):
        return StoreUnusable(StoreCause.BAD_URL, f"{where}: {refused}: correct store.url")
    if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        return StoreUnusable(
            StoreCause.NO_CREDENTIALS,
            f"{where}: no AWS credentials were found: set AWS_PROFILE, or the key variables",
        )
    if isinstance(error, exceptions.NoRegionError):
        return StoreUnusable(
            StoreCause.NO_REGION,
            f"{where}: no AWS region is set: set AWS_REGION, or add ?region= to store.url",
        )
    if isinstance(error, exceptions.SSLError | exceptions.InvalidRegionError):
        return StoreUnusable(StoreCause.BAD_URL, f"{where}: {error}: correct store.url")
    if isinstance(error, exceptions.EndpointConnectionError | exceptions.ConnectTimeoutError):
        return Retryable(f"{where} cannot be reached ({error}): check the network, region and endpoint")
    if isinstance(error, exceptions.HTTPClientError):
        return Unanswered(f"{where} did not answer ({error}): it may have been done")
    return StoreUnusable(StoreCause.BAD_URL, f"{where}: {error}: correct store.url or the AWS configuration")


DEFAULT_STATE_TABLE = "k3s-autoscaler-state"
DEFAULT_LOGS_TABLE = "k3s-autoscaler-logs"
TTL_ATTRIBUTE = "expiresEpoch"
DAY_SECONDS = 24 * 3600
BY_KIND = "by-kind"
BY_SUBJECT = "by-subject"
FORM = "dynamodb://STATE_TABLE/LOGS_TABLE?region=REGION"


@dataclass(frozen=True, slots=True)
class Tables:
    state: str = DEFAULT_STATE_TABLE
    logs: str = DEFAULT_LOGS_TABLE
    region: str = ""
    endpoint: str = ""
    retention_days: int = 90
    """How long a log entry lives; 0 is forever."""

    def expires(self, now: int) -> int:
        """When an entry of now expires; 0 is never."""
        return now + self.retention_days * DAY_SECONDS if self.retention_days else 0

    @property
    def policies(self) -> str:
        return f"{self.state}-policies"

    @property
    def where(self) -> str:
        return f"DynamoDB ({self.state}, {self.logs})"


def parse_tables(url: str, environ: Mapping[str, str] = os.environ) -> Tables:
    parts = urlsplit(url)
    asked = parse_qs(parts.query)
    if parts.scheme != "dynamodb" or not asked.keys() <= {"region", "endpoint"}:
        raise StoreUnusable(StoreCause.BAD_URL, f"store.url is not understood: write {FORM}")
    return Tables(
        state=parts.netloc or environ.get("STATE_TABLE") or DEFAULT_STATE_TABLE,
        logs=parts.path.strip("/") or environ.get("LOGS_TABLE") or DEFAULT_LOGS_TABLE,
        region=asked.get("region", [""])[0],
        endpoint=asked.get("endpoint", [""])[0],
    )


def make_client(tables: Tables) -> Any:
    """A client that never repeats a call by itself: the store must know when a reply was lost."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise StoreUnusable(
            StoreCause.NO_DRIVER, f"boto3 is not installed; nothing was touched. Run: {how_to_add('aws')}"
        ) from error
    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=3,
        read_timeout=10,
        parameter_validation=False,
        tcp_keepalive=True,
        user_agent_extra="ebbtide",
    )
    with translated(tables.where):
        try:
            client = boto3.session.Session().client(
                "dynamodb",
                region_name=tables.region or None,
                endpoint_url=tables.endpoint or None,
                config=config,
            )
        except ValueError as error:
            raise StoreUnusable(
                StoreCause.BAD_URL, f"store.url is not understood ({error}): write {FORM}"
            ) from error
    return refuse_cut_answers(guarded_aws(client))


@contextmanager
def open_client(url: str) -> Iterator[tuple[Tables, Any]]:
    tables = parse_tables(url)
    client = make_client(tables)
    try:
        with translated(tables.where):
            yield tables, client
    finally:
        client.close()


def create_tables(url: str) -> str:
    """Make what is missing: billed on demand, expiring by TTL, recoverable to any moment."""
    with open_client(url) as (tables, client):
        specs = (_state_spec(tables.state), _logs_spec(tables.logs), _policies_spec(tables.policies))
        made = [_create(client, **spec) for spec in specs]
        for name in (tables.state, tables.logs, tables.policies):
            client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
            _set_expiry(client, name)
            _set_recovery(client, name)
    return f"{tables.where} {'was made' if any(made) else 'was there already'}"


def check_tables(url: str) -> str:
    with open_client(url) as (tables, client):
        refuse_unfit(client, tables)
        refuse_unfit_policies(client, tables)
    return f"{tables.where} is ready"


def refuse_unfit(client: Any, tables: Tables) -> None:
    for spec in (_state_spec(tables.state), _logs_spec(tables.logs)):
        _refuse_other(client, tables, spec)


def refuse_unfit_policies(client: Any, tables: Tables) -> None:
    _refuse_other(client, tables, _policies_spec(tables.policies))


def _refuse_other(client: Any, tables: Tables, spec: dict[str, Any]) -> None:
    name = spec["TableName"]
    with translated(tables.where):
        found = client.describe_table(TableName=name)["Table"]
    if found["KeySchema"] != spec["KeySchema"]:
        raise StoreUnusable(
            StoreCause.FOREIGN, f"the table {name} has other keys than Ebbtide's: name another table"
        )
    indexes = {index["IndexName"] for index in found.get("LocalSecondaryIndexes", ())}
    wanted = {index["IndexName"] for index in spec.get("LocalSecondaryIndexes", ())}
    if not wanted <= indexes:
        raise StoreUnusable(
            StoreCause.FOREIGN, f"the table {name} lacks an index: make another with `ebbtide db create`"
        )


def _create(client: Any, **spec: Any) -> bool:
    try:
        client.create_table(BillingMode="PAY_PER_REQUEST", **spec)
    except client.exceptions.ResourceInUseException:
        return False
    return True


def _set_expiry(client: Any, name: str) -> None:
    told = client.describe_time_to_live(TableName=name).get("TimeToLiveDescription", {})
    if told.get("TimeToLiveStatus") in ("ENABLED", "ENABLING"):
        return
    setting = {"Enabled": True, "AttributeName": TTL_ATTRIBUTE}
    client.update_time_to_live(TableName=name, TimeToLiveSpecification=setting)


def _set_recovery(client: Any, name: str) -> None:
    setting = {"PointInTimeRecoveryEnabled": True}
    try:
        client.update_continuous_backups(TableName=name, PointInTimeRecoverySpecification=setting)
    except client.exceptions.ClientError as error:
        if error.response["Error"]["Code"] != "UnknownOperationException":  # DynamoDB Local has no backups
            raise


def _state_spec(name: str) -> dict[str, Any]:
    return {
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    }


def _policies_spec(name: str) -> dict[str, Any]:
    return {
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"} for key in ("pk", "sk")],
        "KeySchema": _keys("sk"),
    }


def _keys(sort_key: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": sort_key, "KeyType": "RANGE"},
    ]


def _logs_spec(name: str) -> dict[str, Any]:
    return {
        "TableName": name,
        "AttributeDefinitions": [
            {"AttributeName": key, "AttributeType": "S"} for key in ("pk", "sk", "kindKey", "subjectKey")
        ],
        "KeySchema": _keys("sk"),
        "LocalSecondaryIndexes": [
            {"IndexName": index, "KeySchema": _keys(key), "Projection": {"ProjectionType": "ALL"}}
            for index, key in ((BY_KIND, "kindKey"), (BY_SUBJECT, "subjectKey"))
        ],
    }
