"""Events as AWS documents them, each with the time it happened put in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

INSTANCE = "i-1234567890abcdef0"


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _event(source: str, kind: str, at: float, resources: list[str], detail: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": "0",
        "id": "12345678-1234-1234-1234-123456789012",
        "detail-type": kind,
        "source": source,
        "account": "123456789012",
        "time": stamp(at),
        "region": "eu-central-1",
        "resources": resources,
        "detail": detail,
    }


def _arn(instance_id: str) -> list[str]:
    return [f"arn:aws:ec2:eu-central-1:123456789012:instance/{instance_id}"]


def schedule(at: float) -> dict[str, Any]:
    rule = "arn:aws:events:eu-central-1:123456789012:rule/ebbtide-tick"
    return _event("aws.events", "Scheduled Event", at, [rule], {})


def interruption(at: float, instance_id: str = INSTANCE) -> dict[str, Any]:
    detail = {"instance-id": instance_id, "instance-action": "terminate"}
    return _event("aws.ec2", "EC2 Spot Instance Interruption Warning", at, _arn(instance_id), detail)


def rebalance(at: float, instance_id: str = INSTANCE) -> dict[str, Any]:
    detail = {"instance-id": instance_id}
    return _event("aws.ec2", "EC2 Instance Rebalance Recommendation", at, _arn(instance_id), detail)


def state_change(at: float, state: str = "shutting-down", instance_id: str = INSTANCE) -> dict[str, Any]:
    detail = {"instance-id": instance_id, "state": state}
    return _event("aws.ec2", "EC2 Instance State-change Notification", at, _arn(instance_id), detail)


def maintenance(at: float, *instance_ids: str) -> dict[str, Any]:
    ids = instance_ids or (INSTANCE,)
    detail = {
        "eventArn": "arn:aws:health:eu-central-1::event/EC2/AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED/x",
        "service": "EC2",
        "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
        "eventTypeCategory": "scheduledChange",
        "eventScopeCode": "ACCOUNT_SPECIFIC",
        "communicationId": "1234abc01232a4012345678-1",
        "startTime": datetime.fromtimestamp(at + 7 * 86_400, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "endTime": datetime.fromtimestamp(at + 8 * 86_400, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "lastUpdatedTime": datetime.fromtimestamp(at, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "statusCode": "upcoming",
        "eventRegion": "eu-central-1",
        "eventDescription": [{"language": "en_US", "latestDescription": "An instance will be retired."}],
        "affectedEntities": [
            {"entityValue": value, "status": "PENDING", "lastUpdatedTime": "", "tags": {}} for value in ids
        ],
        "affectedAccount": "123456789012",
        "page": "1",
        "totalPages": "1",
    }
    return _event("aws.health", "AWS Health Event", at, list(ids), detail)
