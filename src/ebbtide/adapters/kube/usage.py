"""CPU use of the workers, and what each node uses, from metrics-server (`metrics.k8s.io`).

Never raises. A node without a fresh sample is left out; where too many have none, the reading is unknown, as
with Prometheus (`ebbtide.core.nodes.capacity`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from ebbtide import typed
from ebbtide.adapters.kube.connection import ApiError, Connection
from ebbtide.adapters.kube.objects import MIB, read_quantity, read_time
from ebbtide.adapters.kube.wire import Meta, Struct
from ebbtide.core.nodes.capacity import why_unknown
from ebbtide.errors import UNREADABLE, EbbtideError
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, NodeUse, Reading

PATH = "/apis/metrics.k8s.io/v1beta1/nodes"
WHAT = "node metrics"
MAX_AGE_SECONDS = Settings().metric_max_age_seconds


class WireNodeUsage(Struct, frozen=True):
    metadata: Meta
    usage: dict[str, str]
    timestamp: str = ""


class Usages(Struct, frozen=True):
    items: list[WireNodeUsage]


class MetricsServer:
    def __init__(
        self,
        connection: Connection,
        cpu_milli_of: Callable[[], Mapping[str, int]],
        now: Callable[[], float] = time.time,
        max_age_seconds: int = MAX_AGE_SECONDS,
    ) -> None:
        self._connection = connection
        self._cpu_milli_of = cpu_milli_of
        self._now = now
        self._max_age_seconds = max_age_seconds

    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        try:
            found = self._ask()
        except ApiError as refused:
            if refused.not_found:
                return _unknown("the cluster has no metrics-server")
            return _unknown(str(self._connection.refused_reading(refused, WHAT)))
        except (EbbtideError, *UNREADABLE) as error:
            return _unknown(str(error))
        offered, now = self._cpu_milli_of(), self._now()
        known: dict[str, tuple[float, int]] = {}
        for name in node_names:
            with suppress(ValueError, KeyError):
                used, at = float(read_quantity(found[name].usage["cpu"])), read_time(found[name].timestamp)
                if offered.get(name) and now - at <= self._max_age_seconds:
                    known[name] = used, at
        why = why_unknown(node_names, known, self._max_age_seconds)
        if why:
            return _unknown(why)
        milli = sum(used for used, _ in known.values()) * 1000
        return Reading(milli / sum(offered[name] for name in known), min(at for _, at in known.values()))

    def read_use(self, nodes: Sequence[Node]) -> Mapping[str, NodeUse]:
        used: dict[str, NodeUse] = {}
        with suppress(ApiError, EbbtideError, *UNREADABLE):
            found, now = self._ask(), self._now()
            for node in nodes:
                with suppress(ValueError, KeyError, ZeroDivisionError):
                    item, room = found[node.name], node.allocatable
                    cpu, memory = used_by(item)
                    at = read_time(item.timestamp)
                    if now - at <= self._max_age_seconds:
                        used[node.name] = NodeUse(cpu / room.cpu_milli, memory / room.memory_mib, at)
        return used

    def _ask(self) -> dict[str, WireNodeUsage]:
        body = self._connection.try_get(PATH, WHAT)
        return {item.metadata.name: item for item in typed.decode(body, Usages).items}


def used_by(item: WireNodeUsage) -> tuple[int, int]:
    """CPU in thousandths and memory in MiB. Raises `ValueError` or `KeyError` for what is no amount."""
    cpu, memory = (read_quantity(item.usage[name]) for name in ("cpu", "memory"))
    return round(cpu * 1000), round(memory / MIB)


def read_used(connection: Connection) -> dict[str, tuple[int, int]]:
    """By node; empty where there is no metrics-server, or it does not answer."""
    found: dict[str, tuple[int, int]] = {}
    with suppress(ApiError, EbbtideError, *UNREADABLE):
        for item in typed.decode(connection.try_get(PATH, WHAT), Usages).items:
            with suppress(ValueError, KeyError):
                found[item.metadata.name] = used_by(item)
    return found


def _unknown(why: str) -> Reading:
    return Reading(problem=f"CPU is unknown: {why}")
