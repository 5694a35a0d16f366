"""The oracle at every act of a simulation: told just before it takes effect, by the world as it really is.

What a runner was shown may be old, so it is asked only what holds whatever it saw: whose node and whose pod
this is, who may evict whom, what is left on a node that goes, the maximum, the market. The load is asked
where the metrics can be believed. It keeps nothing, so a copied world needs only a witness of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ebbtide.model.operation import Consolidate, RemovalState, SpotKind
from ebbtide.model.record import Record
from ebbtide.model.snapshot import Node
from ebbtide.simulator.checker.violations import ViolationKind
from ebbtide.simulator.run.runner import Stage
from ebbtide.simulator.world.world import Act, ActKind
from tests.oracle import eviction, launch, load, nodes
from tests.oracle.answers import Ruling, no, yes
from tests.oracle.facts import By, Moment
from tests.oracle.translate import removals, slots

UNSEEN_SECONDS = 180.0
"""A node that joined later may not have been seen by the runner that made the call."""


class Witness:
    def __init__(self, stage: Stage, metrics: bool = True) -> None:
        self._stage = stage
        self._metrics = metrics
        """Whether the metrics that runners read are true."""
        stage.world.witnesses.append(self.saw)

    def saw(self, act: Act) -> None:
        for ruling in self._asked(act):
            if not ruling.allows:
                subject = act.node_name or act.instance_id or act.key
                says = f"{act.kind} of {subject}, which the documents forbid: {ruling.why}"
                self._stage.checker.say(ViolationKind.WITNESSED, subject, says)

    def _asked(self, act: Act) -> Iterator[Ruling]:
        node = self._stage.world.inventory.nodes.get(act.node_name)
        match act.kind:
            case ActKind.EVICT:
                yield from self._evict(act, node)
            case ActKind.TERMINATE:
                yield from self._terminate(act, node)
            case ActKind.LAUNCH:
                yield from self._launch(act)
            case _:
                if node is not None:
                    yield nodes.may_touch(node)

    def _evict(self, act: Act, node: Node | None) -> Iterator[Ruling]:
        pod = self._stage.world.inventory.pods.get(act.pod_uid)
        if pod is None or node is None:
            return
        yield nodes.may_touch(node)
        yield eviction.may_evict(pod, self._by(node), self._moment())

    def _terminate(self, act: Act, node: Node | None) -> Iterator[Ruling]:
        if node is None:
            return
        yield nodes.may_touch(node)
        by = self._by(node)
        pods = self._stage.world.pods_on(node.name)
        left = [p.full_name for p in pods if node.ready and eviction.passed_over(p).answer == "no"]
        if by is not By.INTERRUPTION and left and not self._joined_too_late(act, node):
            yield no(f"{left[0]} is still on it")
        decided_now = any(
            removal.instance_id == act.instance_id
            and removal.state is RemovalState.TERMINATING
            and removal.since == int(self._stage.world.now)
            for removal, _ in removals(self._record())
        )
        if decided_now and self._metrics and by is not By.INTERRUPTION:
            hot = load.must_release(self._moment())
            yield no("load is back") if hot.answer == "yes" and node.ready else yes()

    def _joined_too_late(self, act: Act, node: Node) -> bool:
        """Whether it had been given up before it joined, so shortly ago that the call may have been on its
        way: no cloud terminates a machine on condition that it has no node."""
        given_up = any(
            slot.instance_id == act.instance_id and slot.terminated and slot.since <= node.created_at
            for slot in slots(self._record())
        )
        return given_up and self._stage.world.now - node.created_at < UNSEEN_SECONDS

    def _launch(self, act: Act) -> Iterator[Ruling]:
        record = self._record()
        slot = next((slot for slot in slots(record) if slot.key == act.key), None)
        yield nodes.within_maximum(self._moment(), ())
        if slot is not None:
            refused = bool(record.offer_rests) or any(one.refused for one in slots(record))
            decided = replace(self._moment(), settings=self._stage.checker.decided_by(act.key))
            yield launch.right_market(decided, slot, refused)

    def _record(self) -> Record:
        return self._stage.checker.record or Record()

    def _by(self, node: Node) -> By:
        """On whose behalf something happens to this node, as the record says."""
        record, world = self._record(), self._stage.world
        machine = world.nodes.machine_of(node.name)
        instance_id = machine.instance.id if machine is not None else ""
        notice = record.spot_for(instance_id)
        if notice is not None:
            return By.INTERRUPTION if notice.kind is SpotKind.INTERRUPTION else By.REBALANCE
        moved = isinstance(record.removing, Consolidate)
        return By.CONSOLIDATION if moved else By.SCALE_DOWN

    def _moment(self) -> Moment:
        world = self._stage.world
        view = world.view()
        ready = [node.name for node in view.nodes if node.ready and node.pool and not node.control_plane]
        alive = [m.instance for m in world.machines.book.machines.values() if m.ours and m.instance.alive]
        return Moment(
            now=int(world.now),
            settings=self._stage.checker.settings,
            nodes=view.nodes,
            pods=view.pods,
            budgets=view.budgets,
            cpu=world.usage.average(ready) if ready else None,
            alive=len(alive),
        )
