"""What objects of the API server say, as the judge reads them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tests.servers.kube_api import Api

Json = Mapping[str, Any]


def counts(pod: Json, node: Json) -> bool:
    """Whether the pod is lost with its node: neither a DaemonSet's, nor a mirror, nor finished; nor one whose
    grace is over on a node that is not Ready, since nobody can tell of its end there."""
    over_at = seconds(pod["metadata"].get("deletionTimestamp"))
    if over_at is not None and over_at <= time.time() and not ready(node):
        return False
    owners = {owner["kind"] for owner in pod["metadata"].get("ownerReferences", ())}
    mirror = "kubernetes.io/config.mirror" in pod["metadata"].get("annotations", {})
    finished = pod["status"].get("phase") in ("Succeeded", "Failed")
    return "DaemonSet" not in owners and not mirror and not finished


def seconds(text: str | None) -> float | None:
    return datetime.fromisoformat(text).timestamp() if text else None


def ready(node: Json | None) -> bool:
    conditions = node["status"].get("conditions", ()) if node is not None else ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def name_of(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def pods_on(api: Api, node_name: str) -> list[Any]:
    return api.items(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node_name}")
