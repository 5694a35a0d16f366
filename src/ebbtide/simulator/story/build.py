"""From a checked story to a simulated cluster at time 0: nodes are Ready, pods that fit run.

Next to what the story says there is a control plane with its API server, as in every cluster: one without
any node or pod at all is not believed by the engine. What the annotations of workloads mean is read as
the real cluster adapter reads it.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from ebbtide.core.consolidation import game_servers
from ebbtide.core.nodes.room import HOSTNAME_LABEL, ZONE_LABEL
from ebbtide.core.prices import CATALOGUE
from ebbtide.model import names
from ebbtide.model import pod as pods
from ebbtide.model.pod import Pod, Resources
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Market
from ebbtide.simulator.story.parse import Story
from ebbtide.simulator.story.schemas import (
    CloudKeys,
    DemandKeys,
    NodeKeys,
    TolerationKeys,
    WorkloadKeys,
    epoch_of,
)
from ebbtide.simulator.world.rules import (
    BudgetSpec,
    Curve,
    Demand,
    Kind,
    Rules,
    Span,
    WorkloadSpec,
    pod_template,
)
from ebbtide.simulator.world.world import CONTROL_PLANE_ONLY, SPOT_SHARE, World

CONTROL_PLANE = "control-plane"
FOREIGN_TYPE = "cpx32"
TOPOLOGY = {"zone": ZONE_LABEL, "host": HOSTNAME_LABEL}
RUN_SECONDS = 600.0


def build_world(story: Story) -> World:
    keys, settings = story.keys, story.config.settings
    world = World(rules_of(keys.cloud), (), keys.seed, float(epoch_of(keys.start)))
    roll_out(world, settings)
    world.add_control_plane("", name=CONTROL_PLANE)
    api_server = replace(
        pod_template("kube-apiserver", 250, 512, "kube-system"), scheduling=CONTROL_PLANE_ONLY
    )
    world.add_workload(WorkloadSpec(api_server, Kind.STATIC))
    for node in keys.nodes:
        for name in node.names():
            _add_node(world, node, name, settings)
    for workload in keys.workloads:
        if workload.kind == "DaemonSet":
            world.add_workload(spec_of(workload))
    for pod in list(world.inventory.pods.values()):
        world.pods.settle(pod)
    _add_workloads(world, story)
    return world


def rules_of(cloud: CloudKeys) -> Rules:
    return Rules(
        boot=Span(*cloud.boot_sec),
        join=Span(*cloud.join_sec),
        ready=Span(*cloud.ready_sec),
        never_join=cloud.never_join,
        invisible_seconds=cloud.invisible_sec,
        call_seconds=cloud.call_sec,
        late_bind_seconds=cloud.late_bind_sec,
        spot_life_seconds=cloud.spot_life_sec,
        rebalance_chance=cloud.rebalance_chance,
        duplicate_notices=cloud.duplicate_notices,
        notice_delay=Span(*cloud.notice_delay_sec),
    )


def roll_out(world: World, settings: Settings) -> None:
    """The cloud offers what the pools name, at the prices of the pools."""
    world.machines.book.pools = {pool.name: _offered(pool) for pool in settings.pools}


def _offered(pool: Pool) -> Pool:
    """Nodes say of themselves what the join sets; a spot price that nobody knows is a share of the list's."""
    labels = {names.OS: "linux", names.POOL: pool.name, **dict(pool.labels)}
    types = tuple(map(_priced, pool.types))
    return replace(pool, types=types, labels=tuple(sorted(labels.items())))


def _priced(node_type: NodeType) -> NodeType:
    if node_type.spot_price is not None or node_type.price is None:
        return node_type
    share = (node_type.price.per_hour * SPOT_SHARE).quantize(Decimal("0.000001"))
    return replace(node_type, spot_price=replace(node_type.price, per_hour=share, source="simulated"))


def _add_node(world: World, keys: NodeKeys, name: str, settings: Settings) -> None:
    pool = settings.pools[0].name if keys.pool is None else keys.pool
    age = round(keys.age_sec)
    if not pool:
        resources = _type_named(keys.type or FOREIGN_TYPE, settings).allocatable
        node = world.add_foreign_node(keys.zone or settings.pools[0].zones[0], resources, age, name)
    else:
        offered = world.machines.book.pools[pool]
        chosen = keys.type or offered.types[0].name
        zone, market = keys.zone or offered.zones[0], Market(keys.market or offered.market)
        world.machines.book.pools[pool] = _with_type(offered, chosen, settings)
        node = world.add_node(pool, chosen, zone, market, age, name)
        world.machines.book.pools[pool] = offered
    labels = {**dict(node.labels), **keys.labels}
    node = replace(
        node,
        labels=tuple(sorted(labels.items())),
        unschedulable=keys.cordoned_by is not None,
        control_plane=any(label in labels for label in names.CONTROL_PLANE),
        system=labels.get(names.SYSTEM, "false") != "false",
        conditions=keys.conditions,
    )
    world.inventory.put_node(node)
    machine = world.nodes.machine_of(name)
    if machine is not None:
        machine.protected = keys.protected
        if node.worker:
            launched = world.machines.book.pools[node.pool].launch_hash
            machine.instance = replace(machine.instance, launch_hash=launched)
        # A control plane or a system node (row 26) is never a launch of ours.
        machine.tagged = machine.tagged and not (node.control_plane or node.system)
        if not keys.ready:
            world.nodes.fall_silent(machine, long_ago=True)


def _with_type(pool: Pool, name: str, settings: Settings) -> Pool:
    """A node may be of a type that its pool no longer launches."""
    if pool.type_named(name) is not None:
        return pool
    return replace(pool, types=(*pool.types, _priced(_type_named(name, settings))))


def _type_named(name: str, settings: Settings) -> NodeType:
    own = (one for pool in settings.pools for one in pool.types if one.name == name)
    return next(own, None) or CATALOGUE.get(name) or NodeType(name, Resources())


def _add_workloads(world: World, story: Story) -> None:
    """Those with a node of their own first, so the scheduler finds what is left."""
    for keys in story.keys.workloads:
        if keys.kind == "DaemonSet":
            continue
        spec = spec_of(keys)
        if keys.key in story.demands:
            spec = replace(spec, demand=story.demands[keys.key])
        batch = spec.demand.curve is Curve.BATCH
        replicas = 0 if batch else spec.demand.wanted_at(0)
        workload = world.controllers.register(spec, budget_of(keys, spec), replicas)
        for number in range(replicas):
            ordinal = number if spec.kind is Kind.STATEFUL_SET else None
            pod = world.pods.make(workload, ordinal=ordinal)
            if number < len(keys.on):
                world.pods.settle(pod, keys.on[number])
    world.pods.place_all()
    for pod in list(world.inventory.pods.values()):
        if pod.node_name and not pod.ready:
            world.pods.settle(pod)


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
    """The pod as it is read once its server says so; None: it no longer mentions players."""
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


def _scheduling(keys: WorkloadKeys) -> pods.Scheduling:
    own = pods.LabelSelector(
        (pods.Requirement("app", pods.SelectorOperator.IN, ({"app": keys.name, **keys.labels}["app"],)),)
    )
    return pods.Scheduling(
        node_selector=tuple(sorted(keys.node_selector.items())),
        tolerations=tuple(map(_toleration, keys.tolerations)),
        spread=(pods.Spread(TOPOLOGY[keys.spread], 1, own),) if keys.spread else (),
        anti_affinity=(pods.AntiAffinity(TOPOLOGY[keys.anti_affinity], own),) if keys.anti_affinity else (),
    )


def _toleration(keys: TolerationKeys) -> pods.Toleration:
    effect = pods.TaintEffect(keys.effect) if keys.effect is not None else None
    return pods.Toleration(keys.key, keys.operator == "Exists", keys.value, effect)
