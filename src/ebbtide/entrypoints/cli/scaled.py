"""What the commands about policies share: the policies in the store, and the scaling of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ebbtide.entrypoints.cli.options import existing_store, open_ports, open_store
from ebbtide.errors import Retryable, Usage

if TYPE_CHECKING:
    from ebbtide.config import Config
    from ebbtide.engine.scale_to_zero.policies import Policies
    from ebbtide.engine.scale_to_zero.scaling import Scaling
    from ebbtide.model.log import LogEntry
    from ebbtide.model.snapshot import Reading
    from ebbtide.model.workload import Workload, WorkloadRef
    from ebbtide.ports import Store


class Unasked:
    """Stands for the cluster in commands that only need the store, and tells nobody: the command itself says
    what was done."""

    def read(self, ref: WorkloadRef) -> Workload:
        raise Retryable(f"{ref} is not looked at by this command")

    def scale(self, seen: Workload, replicas: int, note: str) -> Workload:  # noqa: ARG002 - those of the port
        raise Retryable(f"{seen.ref} is not scaled by this command")

    def wait_ready(self, ref: WorkloadRef, until: float) -> Workload:  # noqa: ARG002 - those of the port
        return self.read(ref)

    def read_values(self, queries: Sequence[str]) -> Sequence[Reading]:
        from ebbtide.model.snapshot import Reading

        return [Reading(problem="not asked by this command") for _ in queries]

    def notify(self, entry: LogEntry) -> None: ...


@contextmanager
def in_the_store(config: Config) -> Iterator[Scaling]:
    """For commands that write to the store and not to the cluster."""
    store = open_store(config)
    try:
        yield scaling_of(config, store)
    finally:
        store.close()


@contextmanager
def in_the_store_if_any(config: Config) -> Iterator[Scaling | None]:
    """For commands that only read: None where there is nothing yet, so looking makes no file."""
    store = existing_store(config)
    try:
        yield None if store is None else scaling_of(config, store)
    finally:
        if store is not None:
            store.close()


@contextmanager
def with_the_cluster(config: Config) -> Iterator[Scaling]:
    """For commands that scale. A wake is recorded also while the cluster does not answer."""
    from ebbtide.bootstrap.scaling import open_scaling

    with open_ports(config, asking=False) as ports:
        scaling = open_scaling(config, ports)
        if scaling is None:
            raise Usage(
                "the store has no tables for policies; nothing was touched. Run `ebbtide db upgrade` "
                "(on DynamoDB `ebbtide db create`)."
            )
        yield scaling


def book_of(scaling: Scaling, pools: Sequence[str] = ()) -> Policies:
    """`pools` are those that a policy may name, for a command that writes policies."""
    from ebbtide.engine.scale_to_zero.policies import Policies

    ports = scaling.ports
    return Policies(ports.policies, ports.clock, ports.new_id, pools)


def scaling_of(config: Config, store: Store) -> Scaling:
    """For a command that has the store open."""
    from ebbtide.bootstrap import SystemClock, TimeOrderedIds
    from ebbtide.bootstrap.scaling import HasPolicies
    from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts

    assert isinstance(store, HasPolicies)  # every store that can be configured has them
    nobody = Unasked()
    ports = ScalingPorts(
        store=store,
        policies=store.policies(),
        workloads=nobody,
        signals=nobody,
        notifier=nobody,
        clock=SystemClock(),
        new_id=TimeOrderedIds(),
    )
    return Scaling(ports, config.zero, config.settings)
