"""From a configuration and its open ports to the scaling of workloads, with the file's policies applied."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from ebbtide.bootstrap.kubernetes import needing
from ebbtide.config import Config
from ebbtide.engine.loop import for_a_daemon
from ebbtide.engine.ports import Observers, Ports
from ebbtide.engine.scale_to_zero.policies import Policies
from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.errors import StoreUnusable
from ebbtide.model.policy import FROM_CONFIGURATION, Policy
from ebbtide.model.settings import Settings
from ebbtide.ports import PolicyStore

CALLS_AT_ONCE = 8


@runtime_checkable
class HasPolicies(Protocol):
    def policies(self) -> PolicyStore:
        """The policies of the same cluster, in the same store."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The ports of a tick, its settings as policies change them, and the scaling of workloads, if any."""

    ports: Ports
    scaling: Scaling | None = None


def with_scaling(
    config: Config, ports: Ports, stays: bool = False, say: Callable[[str], object] = lambda _: None
) -> Runtime:
    """Opens it and applies the policies of the file. A process that stays also looks ahead, where that is
    configured: a run of its own would read weeks of notes for each tick."""
    if stays and config.settings.forecast.enabled:
        ports = looking_ahead(config.settings, ports)
    scaling = open_scaling(config, ports, stays)
    if scaling is None:
        return Runtime(ports)
    for sentence in apply_policies(config, scaling):
        say(sentence)
    return Runtime(woken_by(ports, scaling), scaling)


def looking_ahead(settings: Settings, ports: Ports) -> Ports:
    with needing("foresight"):
        from ebbtide.engine.foresight import Foresight
    foresight = Foresight(ports.store, settings, ports.new_id)
    return replace(ports, observer=Observers(ports.observer, foresight), expecting=foresight.expecting)


def woken_by(ports: Ports, scaling: Scaling) -> Ports:
    """The ports of a tick with what policies make of its settings. A wake is as urgent as a pod that no node
    takes: a pool that sleeps has no pod to be pending, and what wakes may need a node."""
    return replace(
        ports,
        settings_now=scaling.settings_now,
        urgencies=lambda: ports.urgencies() + scaling.wakes(),
    )


def open_scaling(config: Config, ports: Ports, stays: bool = False) -> Scaling | None:
    """None where workloads cannot be scaled from here, or where the store was made before there were
    policies and none is configured. `stays` is for a process that does."""
    store = ports.store
    if ports.workloads is None or ports.signals is None or not isinstance(store, HasPolicies):
        return None
    try:
        policies = store.policies()
    except StoreUnusable:
        if config.policies:
            raise
        return None
    opened = ScalingPorts(
        store=store,
        policies=policies,
        workloads=ports.workloads,
        signals=ports.signals,
        notifier=ports.notifier,
        clock=ports.clock,
        new_id=ports.new_id,
        cluster=ports.cluster,
        threads=CALLS_AT_ONCE,
        services=ports.services,
        declarations=ports.declarations,
        gate_ports=config.gate.port_range,
        follows=stays,
        looks_ahead=stays and config.settings.forecast.enabled,
    )
    settings = for_a_daemon(config.settings) if stays else config.settings
    return Scaling(opened, config.zero, settings)


def apply_policies(config: Config, scaling: Scaling) -> list[str]:
    """Bring the store to the policies of the file; a sentence for each that was not so already, that cannot
    be so, or that is no longer in the file. The last stay: what sleeps would be left at zero with nobody to
    wake it, so deleting is a command of its own."""
    ports, source = scaling.ports, config.source or "the environment"
    book = Policies(ports.policies, ports.clock, ports.new_id, pool_names(config))
    now = int(ports.clock.now())
    wanted = [keys.policy(str(uuid.uuid4()), 0, now, now) for keys in config.policies]
    said = []
    for change in book.plan(wanted, FROM_CONFIGURATION):
        if change.problems:
            told = "; ".join(f"{problem.field}: {problem.says}" for problem in change.problems)
            said.append(f"policy {change.policy.name} of {source} was not applied: {told}")
            continue
        book.carry_out(change)
        if change.kind is not None:
            said.append(f"policy {change.policy.name}: {change.says}, as {source} says")
    names = {policy.name for policy in wanted}
    return said + [_left_the_file(policy, source) for policy in book.all() if _gone(policy, names)]


def _gone(policy: Policy, names: Collection[str]) -> bool:
    return policy.origin == FROM_CONFIGURATION and policy.name not in names


def _left_the_file(policy: Policy, source: str) -> str:
    name = policy.name
    return (
        f"policy {name}: no longer in {source}, but still active; "
        f"`ebbtide policy delete {name}` ends it, `ebbtide policy apply -f` keeps it without the file"
    )


def pool_names(config: Config) -> list[str]:
    return [pool.name for pool in config.settings.pools]
