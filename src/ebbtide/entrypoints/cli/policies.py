"""`ebbtide policy` and `ebbtide wake`: what may be scaled to zero, and waking it."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ebbtide.entrypoints.cli.options import (
    AsJson,
    ConfigPath,
    existing_store,
    has_store,
    open_ports,
    open_store,
    read_config,
)
from ebbtide.entrypoints.views.terminal import moment, rows, span, write_json, write_lines
from ebbtide.errors import NotFound, Retryable, Usage
from ebbtide.model.idle import WakeReason
from ebbtide.model.policy import declared_by

if TYPE_CHECKING:
    from ebbtide.config import Config
    from ebbtide.engine.scale_to_zero.policies import PlannedChange, Policies
    from ebbtide.engine.scale_to_zero.scaling import Scaling, Woken
    from ebbtide.model.log import LogEntry
    from ebbtide.model.pod import Workload, WorkloadRef
    from ebbtide.model.policy import Policy
    from ebbtide.model.snapshot import Reading
    from ebbtide.ports import Store


class Unasked:
    """Replaces the cluster in commands that only need the store, and writes no Events: the command itself
    says what was done."""

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


def refuse_unknown(config: Config, name: str) -> None:
    """Before a store is opened that would be made by it: a command that fails leaves nothing behind."""
    if not has_store(config):
        raise NotFound(f"there is no policy {name!r}: nothing has run here yet")


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


app = typer.Typer(no_args_is_help=True, help="Manage policies: what may sleep, and when.")
STDIN = "-"
Name = Annotated[str, typer.Argument(help="Name or id of the policy.")]


@app.command()
def apply(
    ctx: typer.Context,
    files: Annotated[
        list[str], typer.Option("--file", "-f", metavar="FILE", help="YAML, or - for standard input.")
    ],
    config: ConfigPath = None,
) -> None:
    """Create or change policies, one per YAML document. All are checked first."""
    from ebbtide.bootstrap.scaling import pool_names
    from ebbtide.config.load import read_policies

    found = read_config(ctx, config)
    pools = pool_names(found)
    wanted = read_policies([_text(name) for name in files], pools)
    with in_the_store(found) as scaling:
        book, now = book_of(scaling, pools), int(scaling.ports.clock.now())
        changes = book.plan([keys.policy(str(uuid.uuid4()), 0, now, now) for keys in wanted])
        _refuse_all([change for change in changes if change.problems])
        for keys, change in zip(wanted, changes, strict=True):
            policy = book.carry_out(_by_hand(found, change))
            write_lines([f"policy {policy.name}: {change.says}"])
            if keys not in found.policies:
                _warn_of_the_file(found, policy.name, "the next start brings it back to that")


def _refuse_all(changes: Sequence[PlannedChange]) -> None:
    if changes:
        told = [
            f"\n  policy {change.policy.name}, {problem.field}: {problem.says}"
            for change in changes
            for problem in change.problems
        ]
        raise Usage(
            f"the policies do not fit next to those in the store; nothing was touched.{''.join(told)}"
        )


def _by_hand(config: Config, change: PlannedChange) -> PlannedChange:
    """Who applies a policy that the configuration does not have keeps it without the configuration."""
    if any(each.name == change.policy.name for each in config.policies):
        return change
    return replace(change, policy=replace(change.policy, origin=""))


def _text(name: str) -> tuple[str, str]:
    where = "standard input" if name == STDIN else name
    try:
        data = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        return where, data.decode()
    except OSError as error:
        raise Usage(f"{name} cannot be read ({error.strerror}); nothing was touched. Name a file.") from error
    except UnicodeDecodeError as error:
        raise Usage(f"{where} is not text in UTF-8; nothing was touched. Write it as plain text.") from error


def _warn_of_the_file(config: Config, name: str, what: str) -> None:
    """What the configuration says of a policy counts at every start."""
    if any(each.name == name for each in config.policies):
        typer.echo(
            f"ebbtide: policy {name} is also in {config.source or 'the environment'}: {what}", err=True
        )


@app.command("list")
def list_all(ctx: typer.Context, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """List the policies with what each is doing."""
    from ebbtide.entrypoints.views.policies import list_lines, told

    with in_the_store_if_any(read_config(ctx, config)) as scaling:
        shapes = [] if scaling is None else told(scaling)
    if as_json:
        write_json([shape.model_dump(mode="json") for shape in shapes])
    else:
        write_lines(list_lines(shapes) or ["There is no policy yet. `ebbtide policy apply -f` makes one."])


@app.command()
def show(ctx: typer.Context, name: Name, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Show one policy as YAML that can be applied again, with its state as comments."""
    from ebbtide.entrypoints.views.policies import shape_of, show_lines

    found = read_config(ctx, config)
    refuse_unknown(found, name)
    with in_the_store(found) as scaling:
        shape = shape_of(scaling, book_of(scaling).find(name))
    if as_json:
        write_json(shape.model_dump(mode="json"))
    else:
        write_lines(show_lines(shape))


@app.command()
def delete(
    ctx: typer.Context,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: ConfigPath = None,
) -> None:
    """Delete a policy; its savings and log stay. A target that sleeps stays at zero."""
    found = read_config(ctx, config)
    refuse_unknown(found, name)
    with in_the_store(found) as scaling:
        book = book_of(scaling)
        policy = book.find(name)
        state = scaling.ports.policies.find_state(policy.id)
        asleep = state is not None and state.is_scaled_to_zero
        left = f" {policy.target} stays at zero; `ebbtide wake {policy.name}` first wakes it." * asleep
        if not yes:
            _ask(f"Delete policy {policy.name}?{left}")
        book.delete(policy)
    write_lines([f"policy {policy.name}: deleted.{left if yes else ''}"])
    _warn_of_the_file(found, policy.name, "the next start creates it again")
    if owner := declared_by(policy):
        typer.echo(f"ebbtide: {owner} declares this policy: while it is there, it comes back", err=True)


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        raise Usage(f"{question} There is no terminal to ask in; nothing was touched. Add --yes to confirm.")
    typer.confirm(question, abort=True)


@app.command()
def pause(ctx: typer.Context, name: Name, config: ConfigPath = None) -> None:
    """Pause a policy: no sleep, no rules, no schedules. Its target can still be woken."""
    policy = _set_paused(read_config(ctx, config), name, paused=True)
    write_lines([f"policy {policy.name} is paused. `ebbtide policy resume {policy.name}` ends that."])


@app.command()
def resume(ctx: typer.Context, name: Name, config: ConfigPath = None) -> None:
    """Resume a paused policy."""
    policy = _set_paused(read_config(ctx, config), name, paused=False)
    write_lines([f"policy {policy.name} is resumed."])


def _set_paused(config: Config, name: str, paused: bool) -> Policy:
    refuse_unknown(config, name)
    with in_the_store(config) as scaling:
        policy = book_of(scaling).find(name)
        scaling.pause(policy.id, paused)
    return policy


@app.command("keep-up")
def keep_up(
    ctx: typer.Context,
    name: Name,
    duration: Annotated[str, typer.Option("--for", help="Such as 3h or 1h30m; 0 ends it.")],
    config: ConfigPath = None,
) -> None:
    """Keep the target of a policy awake for a while. If it sleeps, it is woken."""
    from ebbtide.config.scale_to_zero import read_duration

    found = read_config(ctx, config)
    try:
        seconds = read_duration(duration)
    except ValueError as error:
        raise Usage(f"--for: {duration!r} is {error}; nothing was touched.") from error
    refuse_unknown(found, name)
    with with_the_cluster(found) as scaling:
        policy = book_of(scaling).find(name)
        state = scaling.keep_up(policy.id, seconds)
    if not seconds:
        write_lines([f"policy {policy.name} is no longer kept up."])
        return
    end = f"`ebbtide policy keep-up {policy.name} --for 0` ends that."
    write_lines([f"policy {policy.name} is kept up until {moment(state.keep_up_until)}. {end}"])


def wake(  # noqa: PLR0913, PLR0917 - one for each option
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Names or ids.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Wake every policy that sleeps.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until they are ready, or until the timeout of the policy.")
    ] = False,
    reason: Annotated[WakeReason, typer.Option(help="Reason to write to the log.")] = WakeReason.MANUAL,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Wake policies: bring their targets back to the replicas they had."""
    if bool(names) == everything:
        raise Usage("name the policies to wake, or give --all; nothing was touched.")
    found = read_config(ctx, config)
    if names:
        refuse_unknown(found, names[0])
    named, woken = _wake(found, names or (), reason, wait) if has_store(found) else ({}, [])
    if as_json:
        from ebbtide.entrypoints.views.policy_shapes import woken_shape

        write_json([woken_shape(each).model_dump(mode="json") for each in woken])
    else:
        lines = rows((named[each.policy_id].name, _woken_says(each)) for each in woken)
        write_lines(lines or ["None sleeps."])
    if wait and not all(each.ready for each in woken):
        raise typer.Exit(1)


def _wake(
    config: Config, names: Sequence[str], reason: WakeReason, wait: bool
) -> tuple[dict[str, Policy], list[Woken]]:
    """These policies, or all that sleep; with each wake, the policies by id."""
    with with_the_cluster(config) as scaling:
        book = book_of(scaling)
        wanted = {policy.id: policy for policy in map(book.find, names)}
        woken = list(scaling.wake_all(list(wanted) if names else None, reason))
        if wait:
            woken = [_waited(scaling, each) for each in woken]
        return {
            each.policy_id: wanted.get(each.policy_id) or book.find(each.policy_id) for each in woken
        }, woken


def _waited(scaling: Scaling, woken: Woken) -> Woken:
    from ebbtide.core.scale_to_zero.wake import cold_start_timeout

    policy = scaling.ports.policies.find_policy(woken.policy_id)
    if woken.ready or policy is None:
        return woken
    until = scaling.ports.clock.now() + cold_start_timeout(policy, scaling.defaults)
    after = scaling.wait_ready(woken.policy_id, woken.wake_id, until)
    return replace(woken, ready=after.ready, message=after.message, node_wait=after.node_wait)


def _woken_says(woken: Woken) -> str:
    if woken.ready:
        return f"{woken.message}, {woken.target_replicas} replicas"
    return (
        f"{woken.message}: {woken.previous_replicas} to {woken.target_replicas} replicas, "
        f"ready in {woken.eta_says or f'about {span(woken.estimated_ready_seconds)}'}"
    )
