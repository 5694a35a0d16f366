"""The dashboard and the alert rules over our metrics: right in form, and over names that are exported."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from ebbtide.adapters.metrics_export.metrics import MetricsRegistry
from scripts.make_dashboard import dashboard
from tests.servers.control_plane import Unavailable, ensure_debian
from tests.servers.having import leave_out

FOLDER = Path(__file__).parents[3] / "deploy" / "grafana"
NAME = re.compile(r"\b(?:ebbtide|philotes)_[a-z_]+")


@pytest.fixture
def promtool() -> str:
    """From Debian's Prometheus; where it cannot be had, the run says so in its last lines."""
    try:
        return ensure_debian("promtool", "prometheus")
    except Unavailable as missing:
        leave_out(str(missing))


def exported() -> set[str]:
    """Every name that a scrape can show."""
    names: set[str] = set()
    for family in MetricsRegistry().registry.collect():
        names.add(family.name)
        suffixes = {
            "counter": ("_total",),
            "histogram": ("_bucket", "_sum", "_count"),
            "summary": ("_sum", "_count"),
        }
        names.update(f"{family.name}{suffix}" for suffix in suffixes.get(family.type, ()))
    return names


def test_the_dashboard_is_the_one_that_its_program_makes() -> None:
    written = json.loads((FOLDER / "dashboard.json").read_text())
    assert written == dashboard()


def test_every_name_in_the_dashboard_and_in_the_alerts_is_exported() -> None:
    text = (FOLDER / "dashboard.json").read_text() + (FOLDER / "alerts.yaml").read_text()
    assert set(NAME.findall(text)) - exported() == set()


def test_promtool_accepts_the_alert_rules_and_their_tests(promtool: str) -> None:
    for arguments in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts.test.yaml"]):
        done = subprocess.run([promtool, *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_understands_every_query_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    queries = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    rules = [
        {"record": f"checked:query{number}", "expr": query.replace("$cluster", ".*")}
        for number, query in enumerate(queries)
    ]
    path = tmp_path / "queries.yaml"
    path.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    done = subprocess.run(
        [promtool, "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
