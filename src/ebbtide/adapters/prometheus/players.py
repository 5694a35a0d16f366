"""Players of game servers by PromQL: a sample for each pod, told by its labels `namespace` and `pod`."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from ebbtide.adapters.prometheus.asking import Prometheus, Source, Unknown, number


class PrometheusPlayers:
    def __init__(self, source: Source) -> None:
        self._server = Prometheus(source)

    def read_players(self, query: str) -> Mapping[str, int] | None:
        """Several samples of one pod are added. One that names no pod, or is no number, may be anybody's."""
        found: dict[str, int] = {}
        try:
            for sample in self._server.ask(query):
                namespace, pod = sample.metric.get("namespace", ""), sample.metric.get("pod", "")
                count = number(sample.value[1], f"{namespace}/{pod}")
                if not namespace or not pod or count < 0:
                    return None
                found[f"{namespace}/{pod}"] = found.get(f"{namespace}/{pod}", 0) + ceil(count)
        except Unknown:
            return None
        return found

    def close(self) -> None:
        self._server.close()
