"""When two states are the same: a number for each, equal where nothing that follows can differ.

- Times count from now, and what is long past or far away is all one.
- Operations, instances, nodes and pods are known by their place, not by their running numbers; pods of one
  workload on one node are interchangeable.
- Of tokens only the order counts; of revisions only whether a runner has seen the last.
- Texts for people, the log and numbers for it are left out: nothing depends on them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from typing import Any

from ebbtide.model.pod import Pod
from ebbtide.model.record import Record
from ebbtide.model.snapshot import Node
from ebbtide.simulator.world.world import World

LONG = 7200
"""Seconds after which a moment is long past; longer than any timer of a scene."""
LEFT_OUT = {
    "rev", "lock_owner", "lock_until", "lock_token", "cluster", "format_version", "decision_key",
    "decision_logged_at", "last_said", "reason", "pause_reason", "fence_token", "token", "created_at",
    "launched_at", "uid", "name", "node_uid", "why", "about",
}  # fmt: skip
NODE_LEFT_OUT = LEFT_OUT - {"name"} | {"owner", "instance_id", "provider_id"}
POD_LEFT_OUT = LEFT_OUT | {"node_name"}
MOMENT = re.compile(r"(_at|since|until|deadline|evictions)$")
NUMBERED = re.compile(r"(\d{9,}-x\d+|i-\d+|x-\d+|node-\d+|\b1\d{9}\b)")

Rename = Callable[[str], str]


class Names:
    """Running numbers replaced by the order in which they are met."""

    def __init__(self, now: int, known: dict[str, int] | None = None) -> None:
        self.now = now
        self.known: dict[str, int] = {} if known is None else dict(known)

    def __call__(self, text: str) -> Any:
        pieces = _pieces(text)
        return text if pieces is None else tuple(map(self._place, pieces))

    def _place(self, piece: str) -> Any:
        if piece[:1] != "\0":
            return piece
        known = self.known.get(piece)
        if known is None:
            known = self.known[piece] = len(self.known)
        return known


@lru_cache(100_000)
def _pieces(text: str) -> tuple[str, ...] | None:
    """The text with its running numbers cut out and marked; None where it has none."""
    found = NUMBERED.split(text)
    if len(found) == 1:
        return None
    return tuple(f"\0{piece}" if number % 2 else piece for number, piece in enumerate(found))


_plans: dict[tuple[Any, frozenset[str]], tuple[tuple[str, bool], ...]] = {}


def _plan(kind: Any, left_out: frozenset[str]) -> tuple[tuple[str, bool], ...]:
    """Names of the fields that count, and which of them are moments."""
    known = _plans.get((kind, left_out))
    if known is None:
        counting = [f.name for f in fields(kind) if f.name not in left_out]
        known = _plans[kind, left_out] = tuple((name, bool(MOMENT.search(name))) for name in counting)
    return known


_RECORD = frozenset(LEFT_OUT)
_NODE = frozenset(NODE_LEFT_OUT)
_POD = frozenset(POD_LEFT_OUT)


def encode(value: Any, names: Names, left_out: frozenset[str] = _RECORD) -> Any:
    kind = type(value)
    if kind is str:
        return names(value)
    if kind is int or kind is bool or kind is float or value is None:
        return value
    if kind is tuple:
        return tuple(encode(one, names, left_out) for one in value)
    if hasattr(kind, "__dataclass_fields__"):
        return tuple(
            between(getattr(value, name), names.now)
            if moment
            else encode(getattr(value, name), names, left_out)
            for name, moment in _plan(kind, left_out)
        )
    return value


def between(moment: Any, now: int) -> Any:
    if isinstance(moment, tuple):
        return tuple(between(one, now) for one in moment)
    if not isinstance(moment, int | float) or not moment:
        return moment
    return max(-LONG, min(LONG, round(moment) - now))


def digest_record(record: Record, names: Names) -> int:
    return hash(encode(record, names))


_pod_digests: dict[int, tuple[Pod, int]] = {}
_node_digests: dict[int, tuple[Node, int]] = {}


def _digest_pod(pod: Pod, workload: str) -> int:
    known = _pod_digests.get(id(pod))
    if known is not None and known[0] is pod:
        return known[1]
    plain = Names(0)
    found = hash((workload, *(encode(getattr(pod, name), plain, _POD) for name, _ in _plan(Pod, _POD))))
    if len(_pod_digests) > 200_000:
        _pod_digests.clear()
    _pod_digests[id(pod)] = (pod, found)
    return found


def digest_world(world: World, names: Names) -> int:
    now = names.now
    inventory, book = world.inventory, world.machines.book
    nodes = sorted(inventory.nodes.values(), key=lambda node: (node.created_at, node.name))
    machines = []
    for machine in book.machines.values():
        instance = machine.instance
        machines.append(
            (
                names(instance.id), names(instance.key), instance.state, instance.zone, instance.market,
                machine.node.name, names(machine.node.uid), machine.joins, machine.visible, machine.reachable,
                machine.noticed, machine.asked_to_go, machine.protected,
            )
        )  # fmt: skip
    events: dict[str, list[tuple[str, int]]] = {}
    for at, _, kind, subject in world.timeline.events:
        events.setdefault(subject, []).append((kind, round(at) - now))
    pods: dict[str, list[int]] = {}
    for uid, pod in inventory.pods.items():
        due = events.pop(uid, None)
        found = _digest_pod(pod, world.pods.book.workload_of[uid])
        pods.setdefault(pod.node_name, []).append(found if due is None else hash((found, *sorted(due))))
    shown = [(_digest_node(node, names), *sorted(pods.get(node.name, ()))) for node in nodes]
    # A letter is told by what is in it, everything else by its subject.
    coming = sorted(
        hash((names(subject) if "letter" not in subject else "", *sorted(due)))
        for subject, due in events.items()
    )
    wanted = [(key, load.wanted) for key, load in world.pods.book.workloads.items()]
    volumes = sorted((name, one.zone, one.node_name) for name, one in world.pods.book.volumes.items())
    lost = [between(at, now) for at in world.nodes.lost_at.values()]
    mail = [
        encode(letter, names)
        for letter in (*world.incidents.mail.arrived, *world.incidents.mail.under_way.values())
    ]
    budgets = [(spec.name, spec.max_unavailable) for spec in world.controllers.budget_specs]
    return hash(
        (
            tuple(machines), tuple(shown), tuple(sorted(pods.get("", ()))), tuple(coming), tuple(wanted),
            tuple(volumes), tuple(lost), tuple(mail), tuple(budgets), tuple(book.closed_zones),
            tuple(book.capacity.items()), world.machines.never_join,
        )
    )  # fmt: skip


def _digest_node(node: Node, names: Names) -> Any:
    known = _node_digests.get(id(node))
    if known is None or known[0] is not node:
        if len(_node_digests) > 200_000:
            _node_digests.clear()
        known = _node_digests[id(node)] = (node, hash(encode(node, Names(0), _NODE)))
    return known[1], names(node.instance_id), node.owner and names(node.owner.operation_id)


def ranks(tokens: list[int], current: int) -> tuple[int, ...]:
    """The order of tokens; those above the current one keep their distance, for it will grow to meet them."""
    known = sorted({token for token in tokens if token <= current}, reverse=True)
    return tuple(token - current if token > current else -known.index(token) for token in tokens)
