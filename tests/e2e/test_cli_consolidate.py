"""`ebbtide consolidate --dry-run` on the simulated cluster: a table, the moves, the sums, and no trace."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.shell import Shell

EAGER = {
    "MIN_WORKERS": "1",
    "CONSOLIDATION_ENABLED": "true",
    "CONSOLIDATION_MIN_IDLE_SEC": "0",
    "CONSOLIDATION_MIN_SAVINGS_PER_HOUR": "0.001",
    "CONSOLIDATION_MOVE_COST": "0",
}


def test_what_could_be_saved_is_shown_and_nothing_is_written(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.run("once", environ={"MIN_WORKERS": "4"})
    before = shell.contents()
    told = shell.run("consolidate", "--dry-run", environ=EAGER).out
    assert "cost/h" in told
    assert "removed" in told
    assert "No set of nodes costs less than" in told
    assert told.endswith("Nothing was touched.\n")
    data = json.loads(shell.run("consolidate", "--dry-run", "--json", environ=EAGER).out)
    assert shell.contents() == before
    assert len(data["nodes"]) == 4
    assert {node["kept"] for node in data["nodes"]} == {True, False}
    plan = data["plan"]
    assert float(plan["savingsPerHour"]) > 0
    assert float(plan["bound"]) <= float(plan["costAfter"])
    assert data["entry"]["event"] == "consolidation.evaluated"
    assert {point["podsMoved"] for point in plan["frontier"]} >= {len(plan["moves"])}


def test_the_defaults_say_what_they_fall_short_of(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    told = shell.run("consolidate", "--dry-run").out
    assert "Nothing would be done: consolidation is off (enabled)." in told
    assert shell.files() == []


def test_without_dry_run_it_says_how_to_have_it_done(tmp_path: Path) -> None:
    assert "add --dry-run" in Shell(tmp_path).run("consolidate", code=2).err
