"""A world as JSON, and back. What is loaded continues exactly as what was saved would have.

save(world, Path("world.json"))
world = load(Path("world.json"))
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ebbtide import typed
from ebbtide.errors import UNREADABLE, StoreUnusable
from ebbtide.model.node import Node
from ebbtide.model.pod import Pod
from ebbtide.simulator.faults.world import Mailbox
from ebbtide.simulator.world.clock import Event
from ebbtide.simulator.world.machines import CloudBook
from ebbtide.simulator.world.pods import PodBook
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
        raise StoreUnusable(f"the simulated world {path} cannot be written: {error.strerror}") from error


def load(path: Path) -> World:
    try:
        return decode(path.read_bytes())
    except OSError as error:
        raise StoreUnusable(f"the simulated world {path} cannot be read: {error.strerror}") from error
    except (*UNREADABLE, KeyError, ValueError) as error:
        raise StoreUnusable(
            f"{path} is not a simulated world that this version knows ({error}): it was left as it is; "
            "move it away to start empty"
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
