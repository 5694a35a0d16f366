"""A simulated cluster in a file, shared by processes: what `ebbtide once` and `run` work on by default.

    file = WorldFile(Path("world.json"), clock)
    if not file.exists():
        file.create(build("day", seed=1, start=int(clock.now())).world)
    cluster, cloud = FileCluster(file), FileCloud(file)

Each call takes an exclusive lock, lets the world catch up with the given clock and, where it changed
something, saves it. Reads save nothing: a world that is loaded again catches up to the same state.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from ebbtide.errors import StoreUnusable
from ebbtide.model.effect import Cordon, DeleteNode, Evict, Launch, SoftTaint, Uncordon
from ebbtide.model.node import Instance, Node
from ebbtide.model.operation import SpotNotice
from ebbtide.model.pod import Pod
from ebbtide.model.snapshot import ClusterView, NodeUse, Reading
from ebbtide.model.workload import Workload, WorkloadRef
from ebbtide.ports import Clock
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimCloud, SimCluster, SimInbox, SimMetrics
from ebbtide.simulator.world.saving import load, save
from ebbtide.simulator.world.scaling import SimSignals, SimWorkloads
from ebbtide.simulator.world.world import World

LOOK_SECONDS = 0.2
T = TypeVar("T")


class WorldFile:
    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._world: World | None = None
        self._seen: tuple[int, int, int] | None = None

    def exists(self) -> bool:
        return self.path.exists()

    def create(self, world: World) -> None:
        with self._locked():
            if self.exists():
                raise StoreUnusable(f"{self.path} is there already: move it away to start empty")
            save(world, self.path)

    def wait_for(self, look: Callable[[], T], done: Callable[[T], bool], until: float) -> T:
        """What is simulated happens when somebody looks, so there is nothing to watch but the time."""
        seen = look()
        while not done(seen) and self._clock.now() < until:
            self._clock.sleep(min(LOOK_SECONDS, until - self._clock.now()))
            seen = look()
        return seen

    @contextmanager
    def reading(self) -> Iterator[tuple[World, VirtualClock]]:
        with self._locked():
            yield self._current()

    @contextmanager
    def changing(self) -> Iterator[tuple[World, VirtualClock]]:
        """Saved also when the call is refused: a refusal may have come after a change."""
        with self._locked():
            world, clock = self._current()
            try:
                yield world, clock
            finally:
                save(world, self.path)
                self._seen = self._signature()

    def _current(self) -> tuple[World, VirtualClock]:
        """The world as of now; loaded again only when another process wrote it."""
        signature = self._signature()
        if self._world is None or signature != self._seen:
            self._world, self._seen = load(self.path), signature
        self._world.advance_to(self._clock.now())
        return self._world, VirtualClock(self._world.now)

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = self.path.with_name(f"{self.path.name}.lock")
        try:
            handle = lock.open("a")
        except OSError as error:
            raise StoreUnusable(f"{lock} cannot be opened: {error.strerror}") from error
        with handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


class FileCluster:
    def __init__(self, file: WorldFile) -> None:
        self._file = file

    def read(self) -> ClusterView:
        with self._file.reading() as (world, clock):
            return SimCluster(world, clock).read()

    def read_pods_on(self, node_name: str) -> Sequence[Pod]:
        with self._file.reading() as (world, clock):
            return SimCluster(world, clock).read_pods_on(node_name)

    def soft_taint(self, effect: SoftTaint, token: int) -> None:
        with self._file.changing() as (world, clock):
            SimCluster(world, clock).soft_taint(effect, token)

    def cordon(self, effect: Cordon, token: int) -> None:
        with self._file.changing() as (world, clock):
            SimCluster(world, clock).cordon(effect, token)

    def uncordon(self, effect: Uncordon, token: int) -> None:
        with self._file.changing() as (world, clock):
            SimCluster(world, clock).uncordon(effect, token)

    def evict(self, effect: Evict) -> None:
        with self._file.changing() as (world, clock):
            SimCluster(world, clock).evict(effect)

    def delete_node(self, effect: DeleteNode) -> None:
        with self._file.changing() as (world, clock):
            SimCluster(world, clock).delete_node(effect)


class FileCloud:
    def __init__(self, file: WorldFile) -> None:
        self._file = file

    def launch(self, effect: Launch) -> Instance:
        with self._file.changing() as (world, clock):
            return SimCloud(world, clock).launch(effect)

    def terminate(self, instance_id: str) -> None:
        with self._file.changing() as (world, clock):
            SimCloud(world, clock).terminate(instance_id)

    def list_instances(self) -> Sequence[Instance]:
        with self._file.reading() as (world, clock):
            return SimCloud(world, clock).list_instances()


class FileMetrics:
    def __init__(self, file: WorldFile) -> None:
        self._file = file

    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        try:
            with self._file.reading() as (world, clock):
                return SimMetrics(world, clock).read_cpu(node_names)
        except StoreUnusable as error:
            return Reading(problem=str(error))

    def read_use(self, nodes: Sequence[Node]) -> Mapping[str, NodeUse]:
        try:
            with self._file.reading() as (world, clock):
                return SimMetrics(world, clock).read_use(nodes)
        except StoreUnusable:
            return {}


class FileInbox:
    def __init__(self, file: WorldFile) -> None:
        self._file = file

    def receive(self) -> Sequence[SpotNotice]:
        with self._file.reading() as (world, clock):
            return SimInbox(world, clock).receive()

    def acknowledge(self, notice: SpotNotice) -> None:
        with self._file.changing() as (world, clock):
            SimInbox(world, clock).acknowledge(notice)


class FileWorkloads:
    def __init__(self, file: WorldFile) -> None:
        self._file = file

    def read(self, ref: WorkloadRef) -> Workload:
        with self._file.reading() as (world, clock):
            return SimWorkloads(world, clock).read(ref)

    def scale(self, seen: Workload, replicas: int, note: str) -> Workload:
        with self._file.changing() as (world, clock):
            return SimWorkloads(world, clock).scale(seen, replicas, note)

    def wait_ready(self, ref: WorkloadRef, until: float) -> Workload:
        return self._file.wait_for(lambda: self.read(ref), lambda seen: seen.ready, until)


class FileSignals:
    def __init__(self, file: WorldFile) -> None:
        self._file = file

    def read_values(self, queries: Sequence[str]) -> Sequence[Reading]:
        try:
            with self._file.reading() as (world, clock):
                return SimSignals(world, clock).read_values(queries)
        except StoreUnusable as error:
            return [Reading(problem=str(error), failed=True) for _ in queries]
