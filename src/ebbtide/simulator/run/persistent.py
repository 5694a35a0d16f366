"""A simulated cluster in a file, shared by processes: what `ebbtide once` and `run` work on by default. A
world that is loaded continues exactly as the saved one would have.

    file = WorldFile(Path("world.json"), clock)
    if not file.exists():
        file.create(build("day", seed=1, start=int(clock.now())).world)
    cluster, cloud = FileCluster(file), FileCloud(file)

Each call takes an exclusive lock, lets the world catch up with the given clock and, where it changed
something, saves it. Reads save nothing: a world that is loaded again catches up to the same state.

A world as JSON, and back. What is loaded continues exactly as what was saved would have. save(world,
Path("world.json")) world = load(Path("world.json"))
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from ebbtide import typed
from ebbtide.errors import UNREADABLE, StoreCause, StoreUnusable
from ebbtide.model.effect import Cordon, DeleteNode, Evict, Launch, SoftTaint, Uncordon
from ebbtide.model.operation import SpotNotice
from ebbtide.model.pod import Pod, Workload, WorkloadRef
from ebbtide.model.snapshot import ClusterView, Instance, Node, NodeUse, Reading
from ebbtide.ports import Clock
from ebbtide.simulator.faults.world import Mailbox
from ebbtide.simulator.world.clock import Event, VirtualClock
from ebbtide.simulator.world.machines import CloudBook
from ebbtide.simulator.world.pods import PodBook
from ebbtide.simulator.world.ports import SimCloud, SimCluster, SimInbox, SimMetrics, SimSignals, SimWorkloads
from ebbtide.simulator.world.rules import BudgetSpec, Rules
from ebbtide.simulator.world.world import World

FORMAT = 1


@dataclass(frozen=True, slots=True)
class SavedWorld:
    format: int
    seed: int
    now: float
    serial: int
    random: tuple[int, tuple[int, ...], float | None]
    rules: Rules
    events: list[Event]
    nodes: list[Node]
    pods: list[Pod]
    pod_book: PodBook
    cloud_book: CloudBook
    mail: Mailbox
    budgets: list[BudgetSpec]
    began_at: float
    waited_seconds: float
    lost_at: dict[str, float]
    fences: dict[str, int]
    evictions: int
    removed: int


def save(world: World, path: Path) -> None:
    """Written next to and then moved into place, so a reader never meets half a world."""
    draft = path.with_name(f"{path.name}.new")
    try:
        draft.write_bytes(encode(world))
        os.replace(draft, path)
    except OSError as error:
        raise StoreUnusable(
            StoreCause.NOT_WRITABLE, f"the simulated world {path} cannot be written: {error.strerror}"
        ) from error


def load(path: Path) -> World:
    try:
        return decode(path.read_bytes())
    except OSError as error:
        raise StoreUnusable(
            StoreCause.NOT_READABLE, f"the simulated world {path} cannot be read: {error.strerror}"
        ) from error
    except (*UNREADABLE, KeyError, ValueError) as error:
        raise StoreUnusable(
            StoreCause.CORRUPT,
            f"{path} is not a simulated world that this version knows ({error}): it was left as it is; "
            "move it away to start empty",
        ) from error


def encode(world: World) -> bytes:
    timeline = world.timeline
    return msgspec.json.encode(
        SavedWorld(
            format=FORMAT,
            seed=world.seed,
            now=world.now,
            serial=timeline.serial,
            random=timeline.random.getstate(),
            rules=world.rules,
            events=timeline.events,
            nodes=list(world.inventory.nodes.values()),
            pods=list(world.inventory.pods.values()),
            pod_book=world.pods.book,
            cloud_book=world.machines.book,
            mail=world.incidents.mail,
            budgets=world.controllers.budget_specs,
            began_at=world.controllers.began_at,
            waited_seconds=world.inventory.pending_pod_seconds,
            lost_at=world.nodes.lost_at,
            fences=world.fences,
            evictions=world.evictions,
            removed=world.removed,
        )
    )


def decode(data: bytes) -> World:
    saved = typed.decode(data, SavedWorld)
    if saved.format != FORMAT:
        raise ValueError(f"format {saved.format}, this version knows {FORMAT}")
    world = World(saved.rules, tuple(saved.cloud_book.pools.values()), saved.seed, saved.now)
    world.timeline.serial = saved.serial
    world.timeline.random.setstate(saved.random)
    world.timeline.events = saved.events
    for node in saved.nodes:
        world.inventory.put_node(node)
    for pod in saved.pods:
        world.inventory.put_pod(pod)
    world.inventory.waited_seconds = saved.waited_seconds
    world.machines.book = saved.cloud_book
    world.pods.restore(saved.pod_book)
    world.nodes.restore()
    world.nodes.lost_at = saved.lost_at
    world.incidents.mail = saved.mail
    world.controllers.budget_specs = saved.budgets
    world.controllers.began_at = saved.began_at
    world.fences, world.evictions, world.removed = saved.fences, saved.evictions, saved.removed
    return world


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
                raise StoreUnusable(
                    StoreCause.FOREIGN, f"{self.path} is there already: move it away to start empty"
                )
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
            raise StoreUnusable(
                StoreCause.NOT_WRITABLE, f"{lock} cannot be opened: {error.strerror}"
            ) from error
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
