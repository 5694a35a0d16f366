"""`ebbtide doctor`: whether cluster and cloud can be reached and may be worked with. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from ebbtide.entrypoints.cli.options import AsJson, ConfigPath, read_config
from ebbtide.entrypoints.cli.writing import BAD, GOOD, write_json, write_lines
from ebbtide.errors import EbbtideError, Usage

if TYPE_CHECKING:
    from ebbtide.adapters.kube.doctor import Finding
    from ebbtide.config import Config


def doctor(ctx: typer.Context, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Examine the cluster and its cloud, and say what must be fixed. Exit code 1 when something must."""
    found = read_config(ctx, config)
    if found.cluster_kind != "kubernetes":
        raise Usage("the cluster is simulated: there is nothing to examine. Set cluster.kind to kubernetes.")
    findings = list(_examine(found))
    if as_json:
        write_json([{"ok": one.ok, "says": one.says, "fix": one.fix} for one in findings])
    else:
        write_lines(map(_line, findings))
    if not all(one.ok for one in findings):
        raise typer.Exit(1)


def _examine(config: Config) -> Iterator[Finding]:
    from ebbtide.bootstrap.kubernetes import connect_kubernetes, needing

    connection = connect_kubernetes(config)
    try:
        with needing("kube"):
            from ebbtide.adapters.kube.doctor import examine
        yield from examine(connection)
    finally:
        connection.close()
    yield _cloud(config)


def _cloud(config: Config) -> Finding:
    from ebbtide.adapters.kube.doctor import Finding
    from ebbtide.bootstrap.kubernetes import open_cloud

    kind = config.adapters.cloud.kind
    try:
        count = len(open_cloud(config).list_instances())
    except EbbtideError as error:
        return Finding(False, f"the cloud does not answer: {error}", f"check the access to {kind}")
    return Finding(True, f"{kind} shows {count} instances of cluster {config.settings.cluster!r}")


def _line(finding: Finding) -> Text:
    mark = ("good ", GOOD) if finding.ok else ("wrong", BAD)
    return Text.assemble(mark, f"  {finding.says}", f". Next: {finding.fix}" if finding.fix else "")
