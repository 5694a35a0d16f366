"""CPU use of the workers from metrics-server (`metrics.k8s.io`): where there is no Prometheus.

Never raises. A node without a figure makes the whole reading unknown, as it would with Prometheus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from ebbtide.adapters.kube.answers import NOT_FOUND, Refused, refused_reading
from ebbtide.adapters.kube.connection import Connection
from ebbtide.adapters.kube.objects import read_time
from ebbtide.adapters.kube.quantities import read_quantity
from ebbtide.adapters.kube.wire import Meta, Struct
from ebbtide.errors import UNREADABLE, EbbtideError
from ebbtide.model.snapshot import Reading

PATH = "/apis/metrics.k8s.io/v1beta1/nodes"
WHAT = "node metrics"


class NodeUsage(Struct, frozen=True):
    metadata: Meta
    usage: dict[str, str]
    timestamp: str = ""


class Usages(Struct, frozen=True):
    items: list[NodeUsage]


class MetricsServer:
    def __init__(self, connection: Connection, cpu_milli_of: Callable[[], Mapping[str, int]]) -> None:
        self._connection = connection
        self._cpu_milli_of = cpu_milli_of

    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        try:
            body = self._connection.try_get(PATH, WHAT)
            found = {item.metadata.name: item for item in msgspec.json.decode(body, type=Usages).items}
        except Refused as refused:
            if refused.code == NOT_FOUND:
                return _unknown("the cluster has no metrics-server")
            return _unknown(str(refused_reading(refused, WHAT, self._connection.server)))
        except (EbbtideError, *UNREADABLE) as error:
            return _unknown(str(error))
        offered = self._cpu_milli_of()
        missing = [name for name in node_names if name not in found or not offered.get(name)]
        if missing or not node_names:
            which = f", {missing[0]} first" if missing else ""
            return _unknown(f"{len(missing)} of {len(node_names)} workers have no sample{which}")
        with suppress(ValueError, KeyError):
            used = sum(read_quantity(found[name].usage["cpu"]) for name in node_names) * 1000
            at = min(read_time(found[name].timestamp) for name in node_names)
            return Reading(float(used / sum(offered[name] for name in node_names)), at)
        return _unknown("metrics-server answered something that is no amount of CPU")


def _unknown(why: str) -> Reading:
    return Reading(problem=f"CPU is unknown: {why}")
