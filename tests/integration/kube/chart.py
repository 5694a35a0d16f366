"""The chart as Helm renders it, with the values of an example and others over them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.servers.control_plane import Unavailable, ensure_helm
from tests.servers.having import leave_out

CHART = Path(__file__).parents[3] / "deploy" / "helm" / "ebbtide"
EXAMPLE = CHART / "ci" / "hetzner-values.yaml"


def helm(*arguments: str, stdin: str = "", home: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Helm with a home of its own: what a person has configured on this machine does not count."""
    try:
        binary = ensure_helm(build=False)
    except Unavailable as missing:
        leave_out(str(missing))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))}
    own = {"HOME": str(home)} if home else {}
    return subprocess.run(
        [str(binary), *arguments],
        input=stdin,
        env={**kept, **own},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def render_chart(values: dict[str, Any] | None = None, release: str = "ebbtide") -> list[Any]:
    """Every object of the chart, its hooks among them, released into a namespace of the same name."""
    told = helm(
        *("template", release, str(CHART), "--namespace", release),
        *("--values", str(EXAMPLE), "--values", "-"),
        stdin=yaml.safe_dump(values or {}),
    )
    assert told.returncode == 0, told.stderr
    return [document for document in yaml.safe_load_all(told.stdout) if document]
