"""Runs ticks of the real engine in child processes that kill themselves around every step.

    python -m tests.integration.kube.runner FOLDER KUBECONFIG     reads one order a line, answers one line

Each call that changes anything is struck twice: the first that comes to it dies by SIGKILL right before,
the next right after. What was struck is kept in a file. An order `{"strike": true, "offset": 301}` runs
one tick; the clock is ahead by `offset` seconds, so the lease of one who died has run out without
anybody having to wait for it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from ebbtide.adapters.kube.cluster import KubeCluster
from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.bootstrap import TimeOrderedIds
from ebbtide.engine.ports import Ports
from ebbtide.engine.tick import tick
from ebbtide.errors import Final
from ebbtide.model.effect import Launch
from ebbtide.model.log import LogEntry
from ebbtide.model.operation import ScaleDown, SpotNotice
from ebbtide.model.pod import Resources
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Instance, InstanceState, Reading
from ebbtide.ports import Cloud, Cluster, Store

LONG = 1_000_000
SETTINGS = Settings(
    pools=(Pool("general", (NodeType("cpx32", Resources(4000, 8192)),), ("a", "b")),),
    min_workers=3,
    max_batch_down=3,
    budget_fraction=0.6,
    idle_down_seconds=0,
    cooldown_down_seconds=0,
    pending_up_seconds=LONG,
    drain_timeout_seconds=LONG,
    stuck_seconds=LONG,
    max_tick_gap_seconds=LONG,
    max_unclean_runs=LONG,
    gone_grace_seconds=1,
)
CHANGING = {"write", "soft_taint", "cordon", "uncordon", "evict", "delete_node", "terminate"}


class AheadClock:
    def __init__(self, offset: float) -> None:
        self._offset = offset

    def now(self) -> float:
        return time.time() + self._offset

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class FileCloud:
    """Instances in a file. Every termination is noted with the pods that were on the node just then."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self._file = folder / "instances.json"
        self._notes = folder / "terminated"
        self._cluster = cluster

    def launch(self, effect: Launch) -> Instance:
        raise Final("this cloud launches nothing")

    def terminate(self, instance_id: str) -> None:
        states = json.loads(self._file.read_text())
        pods = self._cluster.read_pods_on(instance_id.removeprefix("i-"))
        note = {"instance": instance_id, "pods": [[p.full_name, p.controller] for p in pods]}
        with self._notes.open("a") as notes:
            notes.write(json.dumps(note) + "\n")
        states[instance_id] = InstanceState.GONE
        self._file.write_text(json.dumps(states))

    def list_instances(self) -> Sequence[Instance]:
        return [
            Instance(
                id, f"test://{id}", pool="general", zone=id.removeprefix("i-")[0], state=InstanceState(state)
            )
            for id, state in json.loads(self._file.read_text()).items()
        ]


class Idle:
    """Metrics of a cluster with nothing to do, an empty inbox, and nobody to tell."""

    def __init__(self, clock: AheadClock) -> None:
        self._clock = clock

    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        return Reading(0.05, int(self._clock.now()))

    def receive(self) -> Sequence[SpotNotice]:
        return ()

    def acknowledge(self, notice: SpotNotice) -> None:
        return

    def notify(self, entry: LogEntry) -> None:
        return


class Death:
    """Strikes around every call that changes anything, once before it and once after."""

    def __init__(self, folder: Path, strikes: bool) -> None:
        self._file = folder / "struck"
        self._strikes = strikes
        self._struck = set(self._file.read_text().splitlines()) if self._file.exists() else set()

    def guard(self, door: object) -> Any:
        return _Guarded(door, self)

    def come(self, when: str, step: str) -> None:
        line = f"{when} {step}"
        if self._strikes and line not in self._struck:
            with self._file.open("a") as file:
                file.write(line + "\n")
            os.kill(os.getpid(), signal.SIGKILL)


class _Guarded:
    def __init__(self, door: object, death: Death) -> None:
        self._door = door
        self._death = death

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._door, name)
        if name not in CHANGING:
            return method

        def struck(*arguments: Any) -> Any:
            step = f"{name} {_told(arguments[0])}"
            self._death.come("before", step)
            answer = method(*arguments)
            self._death.come("after", step)
            return answer

        return struck


def _told(argument: Any) -> str:
    """What makes a step the same when another runner comes to it: the effect, or the states written."""
    if not isinstance(argument, Record):
        return str(argument)
    operation = argument.operation
    states = [r.state for r in operation.removals] if isinstance(operation, ScaleDown) else []
    return f"{bool(operation)} {' '.join(states)} {bool(argument.unclean_runs)}"


def ports_of(folder: Path, cluster: KubeCluster, store: Store, clock: AheadClock, death: Death) -> Ports:
    idle = Idle(clock)
    return Ports(
        store=cast(Store, death.guard(store)),
        cluster=cast(Cluster, death.guard(cluster)),
        cloud=cast(Cloud, death.guard(FileCloud(folder, cluster))),
        metrics=idle,
        inbox=idle,
        notifier=idle,
        clock=clock,
        new_id=TimeOrderedIds(clock.now),
    )


def run_tick(folder: Path, kubeconfig: Path, order: dict[str, Any]) -> str:
    clock, death = AheadClock(order["offset"]), Death(folder, order["strike"])
    cluster = KubeCluster(connect(kubeconfig))
    store = SqlStore.open(f"sqlite:///{folder / 'record.db'}", clock, SETTINGS.cluster)
    ports = ports_of(folder, cluster, store, clock, death)
    report = tick(ports, SETTINGS, f"runner-{os.getpid()}", clock.now() + 60)
    store.close()
    cluster.close()
    return report.says


def main(folder: Path, kubeconfig: Path) -> None:
    for line in sys.stdin:
        answer = folder / "answer"
        child = os.fork()
        if not child:
            answer.write_text(run_tick(folder, kubeconfig, json.loads(line)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status)
        failed = not killed and os.WEXITSTATUS(status)
        says = "" if killed or failed else answer.read_text()
        print(json.dumps({"killed": killed, "failed": bool(failed), "says": says}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
