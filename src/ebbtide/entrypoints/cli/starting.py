"""The first day: `ebbtide init` writes a configuration for the cluster that is there, `ebbtide adopt` makes
existing nodes workers of a pool.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from ebbtide.entrypoints.cli.options import AsJson, ConfigPath, read_config
from ebbtide.entrypoints.views.terminal import BAD, GOOD, QUIET, write_json, write_lines
from ebbtide.errors import ConfigError, EbbtideError, Usage

if TYPE_CHECKING:
    from ebbtide.config import Config
    from ebbtide.entrypoints.setup.adopting import Case
    from ebbtide.entrypoints.setup.document import Choices
    from ebbtide.entrypoints.setup.survey import Survey

STDIN = "-"
NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
LEAST_MAX = 5
READ_SECONDS = 20

DumpPath = Annotated[
    str | None,
    typer.Option(
        "--dump",
        metavar="FILE",
        help="Look at what `kubectl get nodes,pods,pdb,pv,pvc -A -o json` printed (- for standard input), "
        "not at the cluster.",
    ),
]


def init(  # noqa: PLR0913, PLR0917 - one parameter for each option
    dump: DumpPath = None,
    out: Annotated[Path, typer.Option(help="The file to write; ebbtide-rbac.yaml goes next to it.")] = Path(
        "ebbtide.yaml"
    ),
    name: Annotated[str, typer.Option(help="Name of the cluster.")] = "",
    cloud: Annotated[
        Literal["aws", "hetzner"] | None,
        typer.Option(help="Where the nodes are, if that cannot be detected."),
    ] = None,
    minimum: Annotated[int | None, typer.Option("--min", min=0, help="Smallest number of workers.")] = None,
    maximum: Annotated[int | None, typer.Option("--max", min=1, help="Largest number of workers.")] = None,
    image: Annotated[
        str, typer.Option(help="Image of new nodes: an AMI, or an image or snapshot on Hetzner.")
    ] = "",
    store: Annotated[str, typer.Option(help="Where the record is kept.")] = "sqlite:///ebbtide.db",
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Kubeconfig to use. Default: the one that kubectl uses.")
    ] = None,
    context: Annotated[str, typer.Option(help="Context in the kubeconfig.")] = "",
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the cloud.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; use what was found.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Look at the cluster and write a commented configuration for it. Nothing in the cluster is changed."""
    from ebbtide.entrypoints.setup.document import FILE_NAME as RBAC
    from ebbtide.entrypoints.setup.document import Choices, rbac, write_document
    from ebbtide.entrypoints.setup.survey import CloudLook, look_at_cloud, survey

    rbac_file = out.with_name(RBAC)
    _refuse_to_replace([out, rbac_file], force)
    found = survey(_read_dump(dump) if dump else _read_cluster(kubeconfig, context))
    ask = not yes and dump != STDIN and sys.stdin.isatty()
    where = _cloud(found, cloud, ask)
    _refuse_what_is_unknown(found)
    called = _name(name or _asked("Name of the cluster", found.cluster or context or "my-cluster", ask))
    workers = sum(len(pool.nodes) for pool in found.pools)
    least = _number("Least number of workers", minimum, min(2, workers), ask)
    most = _number("Largest number of workers", maximum, max(LEAST_MAX, 2 * workers, least), ask)
    look = CloudLook() if offline else look_at_cloud(found, where, found.region, found.cluster or called)
    chosen = Choices(
        called,
        where,
        found.region,
        least,
        most,
        store,
        str(kubeconfig) if kubeconfig else "",
        image,
        look,
    )
    text = write_document(found, chosen)
    _check(text, out)
    _write(rbac_file, rbac())
    _write(out, text)
    write_lines(_told(out, rbac_file, found, chosen, text))


def _refuse_to_replace(files: list[Path], force: bool) -> None:
    there = [str(file) for file in files if file.exists()]
    if there and not force:
        raise Usage(
            f"{' and '.join(there)} {'exists' if len(there) == 1 else 'exist'} already; nothing was written. "
            "Name another file with --out, or replace what is there with --force."
        )
    folder = files[0].parent
    if not folder.is_dir():
        raise Usage(f"there is no folder {folder}; nothing was written. Make it first, or change --out.")


def _read_dump(source: str) -> bytes:
    from ebbtide.adapters.kube.dump import ASK

    if source == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except OSError as cause:
        raise Usage(
            f"{source}: {cause.strerror}; nothing was written. Make the dump with: {ASK} > {source}"
        ) from cause


def _read_cluster(kubeconfig: Path | None, context: str) -> bytes:
    """Nodes only, as they are at this moment."""
    from ebbtide.adapters.kube.connection import connect
    from ebbtide.adapters.kube.dump import ASK

    try:
        connection = connect(kubeconfig, context or None, READ_SECONDS)
    except ConfigError as error:
        raise Usage(
            f"{error}\nOr look at a cluster without access to it: {ASK} | ebbtide init --dump -"
        ) from error
    try:
        return connection.get("/api/v1/nodes", "the nodes")
    finally:
        connection.close()


def _cloud(found: Survey, named: str | None, ask: bool) -> str:
    if named and found.cloud and named != found.cloud:
        raise Usage(
            f"--cloud {named} is given, but the provider ids of the nodes say {found.cloud}; nothing was "
            "written. Leave --cloud out, or look at the right cluster."
        )
    told = named or found.cloud or (_asked("Cloud (aws or hetzner)", "", ask) if ask else "")
    if told not in ("aws", "hetzner"):
        raise Usage(
            "no node says which cloud it is in (spec.providerID); nothing was written. "
            "Add --cloud aws or --cloud hetzner."
        )
    return told


def _refuse_what_is_unknown(found: Survey) -> None:
    for pool in found.pools:
        lacks = [
            label for label, have in (("a zone", pool.zones), ("an instance type", pool.types)) if not have
        ]
        if lacks:
            raise Usage(
                f"node {pool.nodes[0]} does not say {' or '.join(lacks)}; nothing was written. "
                "Label the nodes with topology.kubernetes.io/zone and node.kubernetes.io/instance-type "
                "(a cloud controller manager does it), and run `ebbtide init` again."
            )


def _asked(question: str, default: str, ask: bool) -> str:
    return str(typer.prompt(question, default=default or None, err=True)) if ask else default


def _number(question: str, given: int | None, default: int, ask: bool) -> int:
    if given is not None:
        return given
    return int(typer.prompt(question, default=default, type=int, err=True)) if ask else default


def _name(text: str) -> str:
    plain = text.rpartition("/")[2].rpartition("@")[2]
    if not NAME.match(plain):
        raise Usage(
            f"--name {text!r} is not allowed; nothing was written. "
            "Use letters, digits, -, _ and ., at most 63."
        )
    return plain


def _check(text: str, out: Path) -> None:
    """A wrong file is never written: its problems are reported instead."""
    from ebbtide.config.document import parse_document
    from ebbtide.config.load import build_config

    build_config(parse_document(text, str(out)), {})


def _write(path: Path, text: str) -> None:
    """Whole or not at all: a half-written configuration could be a valid one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as cause:
        draft.unlink(missing_ok=True)
        raise Usage(
            f"{path} cannot be written ({cause.strerror}) and is as it was. Change --out, or the rights of "
            "its folder."
        ) from cause


def _told(out: Path, rbac_file: Path, found: Survey, chosen: Choices, text: str) -> list[Text]:
    from ebbtide.config.problems import FILL_IN

    lines = [
        Text.assemble(("Written: ", GOOD), f"{out}, {rbac_file}"),
        Text(
            f"{chosen.cluster}: {found.distribution} on {chosen.cloud}, {chosen.min_workers} to "
            f"{chosen.max_workers} workers"
        ),
    ]
    for pool in found.pools:
        count = f"{len(pool.nodes)} node{'s' if len(pool.nodes) != 1 else ''}"
        lines.append(Text(f"  pool {pool.name}: {count}, {', '.join(pool.types)} in {', '.join(pool.zones)}"))
    if chosen.look.says:
        lines.append(Text(f"  {chosen.look.says}"))
    lines += [
        Text(f"! to be filled in, line {number}: {line.strip().partition('   #')[0]}", "yellow")
        for number, line in enumerate(text.splitlines(), 1)
        if FILL_IN in line
    ]
    next_steps = (
        "Next: `ebbtide doctor`, then `ebbtide adopt --dry-run`. How to give it access: at the file's end."
    )
    return [*lines, Text(next_steps, QUIET)]


def adopt(
    ctx: typer.Context,
    pool: Annotated[
        str, typer.Option(help="Add them to this pool only. Default: the first pool that fits.")
    ] = "",
    node: Annotated[list[str] | None, typer.Option(help="Only this node; may be repeated.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")
    ] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Add existing nodes to a pool: tag their machines and label the nodes. Safe to repeat."""
    found = read_config(ctx, config)
    if found.cluster_kind != "kubernetes":
        raise Usage(
            "the configured cluster is simulated; nothing was changed. `ebbtide adopt` is for a cluster of "
            "kind kubernetes: `ebbtide init` writes a configuration."
        )
    cases: list[Case] = []
    try:
        cases.extend(_cases(found, pool, tuple(node or ()), dry_run))
    except EbbtideError:
        # What was done before the error stays done, and a person must know of it.
        write_lines(_lines(cases, dry_run) if cases else ())
        raise
    if as_json:
        write_json([_as_data(case) for case in cases])
    else:
        write_lines(_lines(cases, dry_run))
    if node and any(case.why for case in cases):
        raise typer.Exit(1)


def _cases(config: Config, pool: str, nodes: Sequence[str], dry_run: bool) -> Iterator[Case]:
    from ebbtide.adapters.kube.cluster import KubeCluster
    from ebbtide.bootstrap.kubernetes import connect_kubernetes, open_adopter
    from ebbtide.entrypoints.setup import adopting

    connection = connect_kubernetes(config)
    try:
        cluster, adopter = KubeCluster(connection), open_adopter(config)
        wish = adopting.Wish(config.settings.cluster, config.settings.pools, pool, nodes)
        cases = adopting.look(cluster.read(), adopter, wish)
        if dry_run:
            yield from cases
            return
        yield from (case for case in cases if case.state is not adopting.State.WANTED)
        yield from adopting.adopt(cases, adopter, cluster, config.settings.cluster)
    finally:
        connection.close()


def _lines(cases: Sequence[Case], dry_run: bool) -> Iterator[Text]:
    from ebbtide.core.words import count_of
    from ebbtide.entrypoints.setup.adopting import State

    if dry_run:
        yield Text("Dry run: nothing was changed.", QUIET)
    colours = {State.DONE: GOOD, State.WANTED: "bold", State.REFUSED: BAD}
    for case in sorted(cases, key=lambda one: (one.state is State.REFUSED, one.node.name)):
        says = f"  {case.node.name}" + (f" -> {case.pool}" if case.pool else "")
        yield Text.assemble(
            (f"{case.state.value:<11}", colours[case.state]), says, f": {case.why}" if case.why else ""
        )
    wanted = [case for case in cases if case.state is State.WANTED]
    if not cases:
        yield Text("There is no worker in this cluster: nothing to adopt.")
    elif dry_run and wanted:
        yield Text(f"`ebbtide adopt` would take over {count_of(len(wanted), 'node')}.", QUIET)
    elif any(case.state is State.DONE for case in cases):
        yield Text("Adopted nodes are counted and may be removed. `ebbtide pause` stops removals.", QUIET)


def _as_data(case: Case) -> dict[str, Any]:
    return {
        "node": case.node.name,
        "pool": case.pool,
        "state": case.state.value,
        "why": case.why,
        "instance": case.machine.id if case.machine else "",
    }
