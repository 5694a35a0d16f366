"""What is wrong with a story: with its shape, said with the value and what is allowed; and what only shows
when its keys are looked at together: names that nothing has, times that go back, and what would come
after the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from ebbtide.config import Config
from ebbtide.config.problems import ConfigProblem, KeyPath, allowed, model_in, shown
from ebbtide.core.prices import CATALOGUE
from ebbtide.simulator.faults.catalogue import OF_CALLS
from ebbtide.simulator.story.event_schemas import (
    FORMS,
    ON_NODES,
    ON_POLICIES,
    ON_ZONES,
    TAGS,
    AtKeys,
    EventKeys,
    HappensKeys,
    NeverKeys,
    SaysKeys,
)
from ebbtide.simulator.story.recorder import NEW, RecordedWorkloads
from ebbtide.simulator.story.schemas import NodeKeys, StoryKeys

MOST_NAMED = 12
UNIONS = ("float", "int", "constrained-float", "constrained-int", "none")
"""Marks that a choice between types leaves in the place of a problem."""


def check(keys: StoryKeys, configs: Sequence[Config]) -> Iterator[ConfigProblem]:
    """`configs` are all that are rolled out in the course of the story, the first one first."""
    nodes = [name for node in keys.nodes for name in node.names()]
    yield from _nodes(keys, configs[0])
    yield from _workloads(keys, nodes)
    workloads = RecordedWorkloads(keys.workloads)
    for number, fault in enumerate(keys.faults):
        if fault not in OF_CALLS:
            says = f"{shown(fault)} is not a fault of a runner's calls; allowed: {', '.join(OF_CALLS)}"
            yield ConfigProblem(("faults", number), says)
    yield from _events(keys, configs, nodes, workloads)
    yield from _expectations(keys, configs, nodes, workloads)


def named(names: Collection[str]) -> str:
    shown_names = list(names)[:MOST_NAMED]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(shown_names)}{more}" if names else "none, since there is none"


def _nodes(keys: StoryKeys, config: Config) -> Iterator[ConfigProblem]:
    seen: set[str] = set()
    for number, node in enumerate(keys.nodes):
        path: tuple[str | int, ...] = ("nodes", number)
        for name in node.names():
            if name in seen:
                yield ConfigProblem((*path, "name"), f"{shown(name)} is used twice; give each its own")
            if NEW.fullmatch(name):
                yield ConfigProblem(
                    (*path, "name"), f"{shown(name)} is kept for nodes that are launched (new-1, ...)"
                )
            seen.add(name)
        yield from _node(node, path, config)


def _node(node: NodeKeys, path: tuple[str | int, ...], config: Config) -> Iterator[ConfigProblem]:
    pools = {pool.name: pool for pool in config.settings.pools}
    if node.pool is None and len(pools) > 1:
        yield ConfigProblem(
            path, f'does not say its pool; allowed: {named(pools)}, or "" where it is not ours'
        )
    elif node.pool and node.pool not in pools:
        yield ConfigProblem(
            (*path, "pool"), f'{shown(node.pool)} is not a pool; allowed: {named(pools)}, or ""'
        )
    known = {one.name for pool in pools.values() for one in pool.types}
    if node.type is not None and node.type not in known and node.type not in CATALOGUE:
        yield ConfigProblem(
            (*path, "type"), f"{shown(node.type)} is not a type; allowed: {named(sorted(known))}"
        )


def _workloads(keys: StoryKeys, nodes: Sequence[str]) -> Iterator[ConfigProblem]:
    there = set(nodes)
    seen: set[str] = set()
    for number, workload in enumerate(keys.workloads):
        if workload.key in seen:
            says = (
                f"{shown(workload.name)} is used twice in namespace {workload.namespace}; give each its own"
            )
            yield ConfigProblem(("workloads", number, "name"), says)
        seen.add(workload.key)
        for place, name in enumerate(workload.on):
            if name not in there:
                says = f"{shown(name)} is not a node of the story; allowed: {named(nodes)}"
                yield ConfigProblem(("workloads", number, "on", place), says)


def _events(
    keys: StoryKeys, configs: Sequence[Config], nodes: Sequence[str], workloads: RecordedWorkloads
) -> Iterator[ConfigProblem]:
    before = 0.0
    policies = {policy.name for config in configs for policy in config.policies}
    policies |= {event.policy.name for event in keys.events if event.policy is not None}
    for number, event in enumerate(keys.events):
        path: tuple[str | int, ...] = ("events", number)
        if event.at < before:
            says = f"{event.at:g} goes back: the event before is at {before:g}; allowed: {before:g} or later"
            yield ConfigProblem((*path, "at"), says)
        elif event.at > keys.until:
            yield ConfigProblem(
                (*path, "at"), f"{event.at:g} is after the end; allowed: up to until ({keys.until:g})"
            )
        before = max(before, event.at)
        yield from _subjects(event, path, nodes, workloads)
        if event.kind in ON_POLICIES and event.value not in policies:
            says = f"{shown(event.value)} is not a policy; allowed: {named(sorted(policies))}"
            yield ConfigProblem((*path, event.kind), says)
        if event.policy is not None and (pool := event.policy.target.pool):
            known = [one.name for config in configs for one in config.settings.pools]
            if pool not in known:
                says = f"{shown(pool)} is not a pool; allowed: {named(sorted(set(known)))}"
                yield ConfigProblem((*path, "policy", "target", "pool"), says)
        if event.capacity is not None:
            yield from _capacity(event, (*path, "capacity"), configs)
        if event.kind in ON_ZONES:
            zones = [*_zones(configs), *(["all"] if event.kind == "spot_storm" else [])]
            if event.value not in zones:
                says = f"{shown(event.value)} is not a zone of a pool; allowed: {named(zones)}"
                yield ConfigProblem((*path, event.kind), says)


def _subjects(
    event: EventKeys, path: tuple[str | int, ...], nodes: Sequence[str], workloads: RecordedWorkloads
) -> Iterator[ConfigProblem]:
    if event.kind in ON_NODES:
        yield from _node_named(event.value, (*path, event.kind), nodes)
    for name in event.replicas:
        yield from _workload_named(name, (*path, "replicas", name), workloads)
    for name in event.players:
        yield from _pod_named(name, (*path, "players", name), workloads)


def _zones(configs: Sequence[Config]) -> list[str]:
    return sorted({zone for config in configs for pool in config.settings.pools for zone in pool.zones})


def _capacity(
    event: EventKeys, path: tuple[str | int, ...], configs: Sequence[Config]
) -> Iterator[ConfigProblem]:
    pools = [pool for config in configs for pool in config.settings.pools]
    zones = _zones(configs)
    types = sorted({one.name for pool in pools for one in pool.types})
    asked: Any = event.capacity
    for key, value, known in (("zone", asked.zone, zones), ("type", asked.type, types)):
        if value is not None and value not in known:
            yield ConfigProblem((*path, key), f"{shown(value)} is in no pool; allowed: {named(known)}")


def _expectations(
    keys: StoryKeys, configs: Sequence[Config], nodes: Sequence[str], workloads: RecordedWorkloads
) -> Iterator[ConfigProblem]:
    pools = {pool.name for config in configs for pool in config.settings.pools}
    for number, one in enumerate(keys.expect):
        path: tuple[str | int, ...] = ("expect", number)
        match one:
            case NeverKeys() | HappensKeys():
                if one.node is not None:
                    yield from _node_named(one.node, (*path, "node"), nodes)
                if one.pod is not None:
                    yield from _pod_named(one.pod, (*path, "pod"), workloads)
                if one.workload is not None:
                    yield from _workload_named(one.workload, (*path, "workload"), workloads)
                if one.pool is not None and one.pool not in pools:
                    says = f"{shown(one.pool)} is not a pool; allowed: {named(sorted(pools))}"
                    yield ConfigProblem((*path, "pool"), says)
                yield from _within(one.after, (*path, "after"), keys)
            case AtKeys():
                for key, wanted in (("replicas", one.replicas), ("running", one.running)):
                    for name in wanted or {}:
                        yield from _workload_named(name, (*path, key, name), workloads)
                yield from _within(one.at, (*path, "at"), keys)
            case SaysKeys():
                yield from _within(one.after, (*path, "after"), keys)


def _within(at: float | None, path: tuple[str | int, ...], keys: StoryKeys) -> Iterator[ConfigProblem]:
    if at is not None and at > keys.until:
        yield ConfigProblem(path, f"{at:g} is after the end; allowed: up to until ({keys.until:g})")


def _node_named(name: str, path: tuple[str | int, ...], nodes: Sequence[str]) -> Iterator[ConfigProblem]:
    if name not in nodes and not NEW.fullmatch(name):
        yield ConfigProblem(
            path, f"{shown(name)} is not a node of the story; allowed: {named(nodes)}, or new-1, ..."
        )


def _workload_named(
    name: str, path: tuple[str | int, ...], workloads: RecordedWorkloads
) -> Iterator[ConfigProblem]:
    if wrong := workloads.why_not(name):
        yield ConfigProblem(path, f"{shown(name)} {wrong}; allowed: {named(workloads.names)}")


def _pod_named(
    name: str, path: tuple[str | int, ...], workloads: RecordedWorkloads
) -> Iterator[ConfigProblem]:
    if not workloads.of_pod(name):
        of = [f"{one}-{'0' if workloads.counts_from_zero(one) else '1'}" for one in workloads.names]
        yield ConfigProblem(
            path, f"{shown(name)} is not a pod of the story's workloads; allowed: {named(of)}, ..."
        )


def problems_in(error: ValidationError) -> list[ConfigProblem]:
    found: dict[KeyPath, ConfigProblem] = {}
    for detail in error.errors(include_url=False):
        problem = _problem(detail)
        found.setdefault(problem.path, problem)
    return list(found.values())


def _problem(detail: ErrorDetails) -> ConfigProblem:
    location = tuple(part for part in detail["loc"] if part not in UNIONS)
    path = tuple(part for part in location if part not in TAGS)
    kind, value = detail["type"], detail["input"]
    value = list(value) if isinstance(value, tuple) else value
    if kind == "extra_forbidden":
        return ConfigProblem(path, f"unknown key{_known(location[:-1], str(path[-1]))}")
    if kind == "missing":
        return ConfigProblem(path, f"is missing{_allowed(location)}")
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return ConfigProblem(path, f"is not an expectation; it needs one of the keys {', '.join(FORMS)}")
    if kind == "value_error":
        says = str(detail["ctx"]["error"])
        whole = isinstance(value, dict | BaseModel)
        return ConfigProblem(path, says if whole else f"{shown(value)} is {says}")
    if value is None:
        return ConfigProblem(path, f"is empty{_allowed(location)}")
    return ConfigProblem(path, f"{shown(value)} is not allowed{_allowed(location) or '; ' + detail['msg']}")


def _known(location: tuple[str | int, ...], wrong: str) -> str:
    model, _ = _at(location)
    known = list(model.model_fields) if model is not None else []
    near = get_close_matches(wrong.lower(), known, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{hint}; allowed: {', '.join(known)}" if known else hint


def _allowed(location: tuple[str | int, ...]) -> str:
    model, field = _at(location)
    if field is not None and (isinstance(location[-1], str) or model is None):
        return f"; allowed: {_words(field, location)}"
    return f"; allowed: the keys {', '.join(model.model_fields)}" if model is not None else ""


def _words(field: FieldInfo, location: tuple[str | int, ...]) -> str:
    inside = model_in(field.annotation)
    if inside is not None and not field.json_schema_extra:
        many = "a list of entries with " if "tuple" in str(field.annotation) else ""
        return f"{many}the keys {', '.join(inside.model_fields)}"
    name = next((part for part in reversed(location) if isinstance(part, str)), "")
    return allowed(field, name)


def _at(location: tuple[str | int, ...]) -> tuple[type[BaseModel] | None, FieldInfo | None]:
    """The model whose keys are found at a place, and the last field on the way there."""
    model: type[BaseModel] | None = StoryKeys
    field: FieldInfo | None = None
    for part in location:
        if part in TAGS:
            model = TAGS[str(part)]
        elif isinstance(part, str) and model is not None:
            found: Any = model.model_fields.get(part)
            field = found or field
            model = model_in(found.annotation) if found is not None else None
    return model, field
