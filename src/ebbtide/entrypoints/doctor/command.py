"""`ebbtide doctor`: whether all that Ebbtide needs can be reached and may be worked with. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from ebbtide.entrypoints.cli.options import AsJson, ConfigPath, read_config
from ebbtide.entrypoints.views.terminal import BAD, GOOD, write_json, write_lines
from ebbtide.errors import EbbtideError

if TYPE_CHECKING:
    from ebbtide.adapters.kube.doctor import Finding
    from ebbtide.config import Config
    from ebbtide.model.snapshot import Node


def doctor(ctx: typer.Context, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Check cluster, cloud, store, metrics and prices. Exit code 1 if something must be fixed."""
    found = read_config(ctx, config)
    findings = list(_examine(found))
    if as_json:
        write_json([{"ok": one.ok, "says": one.says, "fix": one.fix} for one in findings])
    else:
        write_lines(map(_line, findings))
    if not all(one.ok for one in findings):
        raise typer.Exit(1)


def _examine(config: Config) -> Iterator[Finding]:
    from ebbtide.entrypoints.doctor import examine

    nodes: list[Node] = []
    if config.cluster_kind != "kubernetes":
        yield examine.simulated(config)
        yield from examine.examine_store(config)
        yield from examine.examine_prices(config)
        return
    yield from examine.examine_unfilled(config)
    yield from _cluster(config, nodes)
    yield from examine.examine_cloud(config, nodes)
    yield from examine.examine_store(config)
    optional = (
        examine.examine_metrics(config, [node.name for node in nodes if node.worker]),
        examine.examine_queue(config),
        examine.examine_webhooks(config),
    )
    yield from (finding for finding in optional if finding is not None)
    yield from examine.examine_prices(config)


def _cluster(config: Config, known: list[Node]) -> Iterator[Finding]:
    """What the cluster answers; its nodes are put into the list."""
    from ebbtide.adapters.kube.doctor import (
        Finding,
        examine,
        examine_gate,
        examine_sleep_policies,
        read_nodes,
        uncounted_nodes,
    )
    from ebbtide.bootstrap.kubernetes import connect_kubernetes
    from ebbtide.entrypoints.doctor.examine import gated_services, scales_workloads

    try:
        connection = connect_kubernetes(config)
    except EbbtideError as error:
        yield Finding(False, str(error), "check cluster.kubeconfig and cluster.context")
        return
    try:
        from_cluster = not config.adapters.metrics.prometheus_url
        yield from examine(connection, from_cluster, scales_workloads(config))
        gate = config.gate
        yield from examine_gate(connection, gate.service_ref, gate.namespaces, gated_services(config))
        yield from examine_sleep_policies(connection, config.sleep_policies)
        nodes = read_nodes(connection)
        known += nodes
        if (loose := uncounted_nodes(nodes, config.settings.pools)) is not None:
            yield loose
    except EbbtideError:
        return  # said by `examine` already
    finally:
        connection.close()


def _line(finding: Finding) -> Text:
    mark = ("good ", GOOD) if finding.ok else ("wrong", BAD)
    return Text.assemble(mark, f"  {sentences(finding)}")


def sentences(finding: Finding) -> str:
    """What was found, and the next step."""
    return f"{finding.says}. Next: {finding.fix}" if finding.fix else finding.says
