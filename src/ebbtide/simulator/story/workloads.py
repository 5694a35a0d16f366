"""Workloads of a story as the simulator knows them; what their annotations mean is read as the real cluster
adapter reads it."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.core.consolidation import game_servers
from ebbtide.core.nodes.room import HOSTNAME_LABEL, ZONE_LABEL
from ebbtide.model import names
from ebbtide.model.pod import Pod
from ebbtide.model.scheduling import (
    AntiAffinity,
    LabelSelector,
    Operator,
    Requirement,
    Scheduling,
    Spread,
    TaintEffect,
    Toleration,
)
from ebbtide.simulator.story.schemas import DemandKeys, TolerationKeys, WorkloadKeys
from ebbtide.simulator.world.rules import BudgetSpec, Kind, WorkloadSpec, pod_template
from ebbtide.simulator.world.workload import Curve, Demand

TOPOLOGY = {"zone": ZONE_LABEL, "host": HOSTNAME_LABEL}
RUN_SECONDS = 600.0


def spec_of(keys: WorkloadKeys) -> WorkloadSpec:
    return WorkloadSpec(
        template_of(keys),
        Kind(keys.kind),
        Demand(low=keys.replicas) if keys.demand is None else demand_of(keys.demand),
        use_fraction=keys.cpu_use,
        start_seconds=keys.start_sec,
        stop_seconds=keys.stop_sec,
        run_seconds=RUN_SECONDS if keys.run_sec is None else keys.run_sec,
        volume=keys.volume,
        requests=None if keys.requests is None else demand_of(keys.requests),
    )


def demand_of(keys: DemandKeys) -> Demand:
    return Demand(
        Curve(keys.curve),
        keys.low,
        keys.high,
        step_seconds=keys.step_sec,
        peak_second=keys.peak_sec,
        every_seconds=keys.every_sec,
        burst_seconds=keys.burst_sec,
        offset_seconds=keys.offset_sec,
    )


def template_of(keys: WorkloadKeys) -> Pod:
    template = pod_template(keys.name, keys.cpu, keys.memory, keys.namespace)
    labels = {"app": keys.name, **keys.labels}
    harmless = names.SAFE_LOCAL_VOLUMES in keys.annotations
    safe = next((keys.annotations[name] for name in names.SAFE_TO_EVICT if keys.annotations.get(name)), "")
    return replace(
        template,
        labels=tuple(sorted(labels.items())),
        annotations=server_notes(keys.annotations),
        safe_to_evict={"true": True, "false": False}.get(safe),
        do_not_disrupt=any(keys.annotations.get(name) == "true" for name in names.DO_NOT_DISRUPT),
        local_storage=keys.local_storage and not harmless,
        priority_class=keys.priority_class,
        grace_seconds=max(template.grace_seconds, round(keys.stop_sec)),
        scheduling=_scheduling(keys),
    )


def server_notes(annotations: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Those that say something about a game server."""
    return tuple((key, annotations[key]) for key in game_servers.KEYS if key in annotations)


def with_players(pod: Pod, players: int | None) -> Pod:
    """The pod as it is read once its server says so; None: it says nothing of players any more."""
    notes = {key: value for key, value in pod.annotations if key != game_servers.PLAYERS}
    if players is not None:
        notes[game_servers.PLAYERS] = str(players)
    return replace(pod, annotations=server_notes(notes))


def budget_of(keys: WorkloadKeys, spec: WorkloadSpec) -> tuple[BudgetSpec, ...]:
    first = () if keys.pdb is None else (keys.pdb,)
    return tuple(
        BudgetSpec(
            f"{keys.name}-{number}" if number else keys.name, spec.key, pdb.max_unavailable, pdb.min_available
        )
        for number, pdb in enumerate((*first, *keys.more_pdbs))
    )


def _scheduling(keys: WorkloadKeys) -> Scheduling:
    own = LabelSelector((Requirement("app", Operator.IN, ({"app": keys.name, **keys.labels}["app"],)),))
    return Scheduling(
        node_selector=tuple(sorted(keys.node_selector.items())),
        tolerations=tuple(map(_toleration, keys.tolerations)),
        spread=(Spread(TOPOLOGY[keys.spread], 1, own),) if keys.spread else (),
        anti_affinity=(AntiAffinity(TOPOLOGY[keys.anti_affinity], own),) if keys.anti_affinity else (),
    )


def _toleration(keys: TolerationKeys) -> Toleration:
    effect = TaintEffect(keys.effect) if keys.effect is not None else None
    return Toleration(keys.key, keys.operator == "Exists", keys.value, effect)
