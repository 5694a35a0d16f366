"""What must be true once nothing has gone wrong for a while."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.model.operation import Operation
from ebbtide.simulator.run.runner import Stage, store_of
from tests.explorer.actors import Actor
from tests.explorer.scenes import Scene
from tests.explorer.sleeping import wrong_with_sleep


def what_is_wrong_at_the_end(stage: Stage, scene: Scene, actors: Sequence[Actor]) -> list[str]:
    record, world = store_of(stage).load(), stage.world
    stage.checker.finish(record)
    found = list(map(str, stage.checker.violations))
    if record.operation is not None and (scene.serves or _overdue(record.operation, stage)):
        found.append(f"{record.operation.id} is still open: {record.operation}")
    if record.set_aside is not None:
        found.append(f"{record.set_aside.id} was set aside")
    found += [f"{one.removal.node_name} was set aside and is never tried again" for one in record.refused]
    found += [f"{spot.id} is still open: {spot}" for spot in record.spots]
    workers = [node for node in world.inventory.nodes.values() if node.worker]
    found += [f"{node.name} is left cordoned by {node.owner}" for node in workers if node.owner is not None]
    found += [
        f"{node.name} is left without a machine" for node in workers if not world.nodes.works(node.name)
    ]
    for machine in world.machines.book.machines.values():
        joined = world.nodes.machine_of(machine.node.name) is machine
        if scene.serves and machine.ours and machine.instance.alive and not joined:
            found.append(f"instance {machine.instance.id} is left without a node")
    ready = sum(1 for node in workers if node.ready)
    if ready < scene.settings.min_workers:
        found.append(f"{ready} workers are ready, min_workers is {scene.settings.min_workers}")
    if scene.serves and ready < scene.settings.max_workers:
        waiting = [pod.full_name for pod in world.inventory.pods.values() if pod.waiting]
        found += [f"{name} still waits" for name in waiting]
    if world.incidents.mail.arrived:
        found.append(f"{world.incidents.mail.arrived[0]} was never received")
    found += wrong_with_sleep(stage, [actor.asks for actor in actors], [actor.answered for actor in actors])
    return found


def _overdue(operation: Operation, stage: Stage) -> bool:
    """Where nothing can succeed, operations follow one another; but none may last."""
    settings = stage.settings
    longest = settings.join_timeout_seconds + settings.launch_timeout_seconds + settings.stuck_seconds
    return stage.clock.now() - operation.started_at > longest
