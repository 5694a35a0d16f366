"""The cluster port on a Kubernetes API server.

    KubeCluster(connect())                     reads by lists: a Lambda, a single tick
    KubeCluster(connect(), watching=True)      keeps a view current: a daemon

Acting goes to the server directly; a watched view is then waited for until it shows what was done.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from ebbtide.adapters.kube.connection import Connection
from ebbtide.adapters.kube.events import Events, NodeTeller
from ebbtide.adapters.kube.reading import Watches, list_pods_on, list_view
from ebbtide.adapters.kube.wire import WireNode
from ebbtide.adapters.kube.writer import Actor
from ebbtide.model.effect import Cordon, DeleteNode, Evict, SoftTaint, Uncordon
from ebbtide.model.pod import Pod
from ebbtide.model.snapshot import ClusterView

FIRST_LIST_SECONDS = 60.0


class KubeCluster:
    def __init__(self, connection: Connection, watching: bool = False) -> None:
        self._connection = connection
        events = Events(connection)
        self._actor = Actor(connection, events)
        self.teller = NodeTeller(events, lambda: {node.name: node.uid for node in self._view.nodes})
        """Reports on nodes why they are kept; the observer of the runner that decides."""
        self._watching = watching
        self._watches: Watches | None = None
        self._one_reads = threading.Lock()
        """The tick, the rounds over policies and the API read at the same time. Without it each would begin
        watches of its own, and one that is slow could leave an older view behind than another was shown."""
        self._view = ClusterView()

    def read(self) -> ClusterView:
        view = self._watched() if self._watching else None
        self._view = list_view(self._connection) if view is None else view
        return self._view

    def urgencies(self) -> int:
        """Grows with every pod that no node takes and every node that becomes Ready, where watched."""
        return 0 if self._watches is None else self._watches.urgencies

    def arrived_at(self) -> float:
        """When the last pod came that no node takes, where watched; 0 where none did."""
        return 0.0 if self._watches is None else self._watches.pods.urgent_at

    @property
    def cpu_milli_of(self) -> Mapping[str, int]:
        """CPU by node name as last read: what a use of CPU is a share of."""
        return {node.name: node.allocatable.cpu_milli for node in self._view.nodes}

    def read_pods_on(self, node_name: str) -> Sequence[Pod]:
        return list_pods_on(self._connection, node_name)

    def label_node(self, name: str, uid: str, labels: Mapping[str, str]) -> None:
        """For `ebbtide adopt`. Labels that are there stay; `NotOurs` for another node or another pool."""
        self._actor.label(name, uid, labels)

    def soft_taint(self, effect: SoftTaint, token: int) -> None:
        self._show(self._actor.soft_taint(effect, token))

    def cordon(self, effect: Cordon, token: int) -> None:
        self._show(self._actor.cordon(effect, token))

    def uncordon(self, effect: Uncordon, token: int) -> None:
        self._show(self._actor.uncordon(effect, token))

    def evict(self, effect: Evict) -> None:
        self._actor.evict(effect)
        if self._watches is not None:
            self._watches.await_pod(
                effect.namespace,
                effect.name,
                lambda pod: pod is None or pod.uid != effect.uid or pod.terminating,
            )

    def delete_node(self, effect: DeleteNode) -> None:
        self._actor.delete_node(effect)
        if self._watches is not None:
            self._watches.await_node_gone(effect.node_name, effect.node_uid)

    def close(self) -> None:
        self.teller.close()
        if self._watches is not None:
            self._watches.close()
        self._connection.close()

    def _watched(self) -> ClusterView | None:
        """None where the watches do not work (yet): then a list is read, and its error is the caller's."""
        with self._one_reads:
            if self._watches is None:
                self._watches = Watches(self._connection)
                self._watches.await_first(FIRST_LIST_SECONDS)
            return self._watches.view()

    def _show(self, changed: WireNode | None) -> None:
        if self._watches is not None and changed is not None:
            self._watches.nodes.put(changed)
