"""`ebbtide simulate story.yaml` as people and other programs call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.shell import Shell
from tests.stories.playing import text_of, web

FIELDS = {
    *("at", "act", "node", "pod", "workload", "instance", "type", "zone", "operation", "why"),
    *("pool", "market"),
}
HOLDS = text_of(
    workloads=web(4, cpu="1500m"),
    events=[{"at": 60, "replicas": {"web": 8}}],
    expect=[{"happens": "launch"}, {"at_end": {"waiting": 0}}],
)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_json_of_a_story_that_holds(shell: Shell) -> None:
    shell.write("story.yaml", HOLDS)
    first, second = (shell.run("simulate", "story.yaml", "--json").out for _ in range(2))
    assert first == second
    result = json.loads(first)
    assert result["ok"]
    assert (result["name"], result["failed"], result["violations"]) == ("a test", [], [])
    assert {frozenset(act) for act in result["acts"]} == {frozenset(FIELDS)}
    assert {frozenset(said) for said in result["ticks"]} == {frozenset({"at", "says"})}
    assert {"p50", "p90", "p99", "max"} <= set(result["waits"])
    assert 180 < result["waits"]["p50"] <= result["waits"]["max"] < 600
    totals = {"cost", "node_hours", "pending_pod_seconds", "launched", "removed", "evictions"}
    assert totals <= set(result)
    assert shell.files() == ["story.yaml"]


def test_a_story_that_does_not_hold_ends_with_1_and_says_what_was_seen(shell: Shell) -> None:
    shell.write("story.yaml", text_of(expect=[{"happens": "launch"}, {"at_end": {"workers": 5}}], until=60))
    result = json.loads(shell.run("simulate", "story.yaml", "--json", code=1).out)
    assert not result["ok"]
    assert [one["expect"] for one in result["failed"]] == [{"happens": "launch"}, {"at_end": {"workers": 5}}]
    assert [one["seen"] for one in result["failed"]] == ["launch 0 times", "workers is 2"]
    told = shell.run("simulate", "story.yaml", code=1).out
    assert 'does not hold (line 17): {"happens":"launch"}; seen: launch 0 times' in told


def test_the_summary_says_what_was_done_and_why(shell: Shell) -> None:
    shell.write("story.yaml", HOLDS)
    told = shell.run("simulate", "story.yaml").out
    assert "pods that did not fit at once  4;" in told
    assert "launch      new-1 cpx32" in told
    assert "All expectations hold; no safety rule was violated." in told


@pytest.mark.parametrize("option", ["--seed=3", "--scenario=day", "--faults=crash", "--days=2", "--compare"])
def test_what_belongs_to_a_scenario_is_refused_with_a_story(shell: Shell, option: str) -> None:
    shell.write("story.yaml", HOLDS)
    done = shell.run("simulate", "story.yaml", option, code=2)
    assert f"{option.partition('=')[0]} cannot be given with a story file" in done.err
