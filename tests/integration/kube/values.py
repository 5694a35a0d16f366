"""What the adapter makes of objects: a view of a dump, one node of it, one pod."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ebbtide.adapters.kube.dump import read_dump
from ebbtide.adapters.kube.objects import read_pod
from ebbtide.adapters.kube.scheduling import Understanding
from ebbtide.adapters.kube.wire import WirePod
from ebbtide.model.pod import Pod
from ebbtide.model.snapshot import ClusterView, Node
from tests.integration.kube.objects import Json, node, seen_pod


def view_of(*items: Json) -> ClusterView:
    return read_dump(json.dumps({"kind": "List", "items": items}).encode()).view


def node_of(**overrides: Any) -> Node:
    return view_of(node("a1", **overrides)).nodes[0]


def pod_of(**overrides: Any) -> Pod:
    return read_pod(
        msgspec.json.decode(json.dumps(seen_pod("web-1", **overrides)).encode(), type=WirePod),
        Understanding(),
    ).pod
