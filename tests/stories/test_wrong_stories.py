"""A file that is wrong runs nothing: exit code 2, with the line and what is allowed there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbtide.errors import ConfigError
from ebbtide.simulator.story import parse_story, read_story
from tests.e2e.shell import Shell

HEAD = """\
name: wrong
until: 600
settings:
  pools: [{name: general, types: [cpx32], zones: [a]}]
nodes:
  - {name: a1}
workloads:
  - {name: web, cpu: 100m}
"""

WRONG = {
    "an unknown key": ("untill: 5", 9, "unknown key; did you mean until?; allowed: name, runner, tick_sec"),
    "an unknown key of an event": ("events:\n  - {at: 1, burn: a1}", 10, "allowed: at, cpu, replicas"),
    "two things in one event": (
        "events:\n  - {at: 1, cordon: a1, cpu: 0.5}",
        10,
        "needs exactly one thing that happens",
    ),
    "an event without a thing": ("events:\n  - {at: 1}", 10, "allowed: cpu, replicas, policy, wake"),
    "a negative time": (
        "events:\n  - {at: -1, cordon: a1}",
        10,
        "-1 is not allowed; allowed: a number of seconds",
    ),
    "a time that goes back": (
        "events:\n  - {at: 60, cordon: a1}\n  - {at: 30, uncordon: a1}",
        11,
        "30 goes back: the event before is at 60; allowed: 60 or later",
    ),
    "a time after the end": ("events:\n  - {at: 601, cordon: a1}", 10, "allowed: up to until (600)"),
    "a node that is not there": (
        "events:\n  - {at: 1, node_dies: b9}",
        10,
        '"b9" is not a node of the story; allowed: a1',
    ),
    "a workload that is not there": (
        "events:\n  - {at: 1, replicas: {wep: 3}}",
        10,
        '"wep" is not a workload of the story; allowed: web',
    ),
    "a pod that is not there": ("events:\n  - {at: 1, players: {mc-0: 3}}", 10, "allowed: web-1, ..."),
    "a policy that is not there": ("events:\n  - {at: 1, wake: dev}", 10, '"dev" is not a policy'),
    "a wrong word": ("events:\n  - {at: 1, metrics: off}", 10, '"off" is not allowed; allowed: gone or back'),
    "a wrong type": ("tick_sec: often", 9, '"often" is not allowed; allowed: a number of seconds'),
    "no number of replicas": ("events:\n  - {at: 1, replicas: {web: many}}", 10, '"many" is not allowed'),
    "a share above 1": ("events:\n  - {at: 1, cpu: 95}", 10, "allowed: a number from 0 to 1"),
    "an unknown act": ("expect:\n  - {never: reboot}", 10, "allowed: launch, soft_taint, cordon"),
    "an expectation of no form": ("expect:\n  - {node: a1}", 10, "never, happens, at_end, says, at"),
    "a key of another form": ("expect:\n  - {never: evict, at_least: 2}", 10, "unknown key"),
    "a node that nothing can be expected of": (
        "expect:\n  - {never: evict, node: x}",
        10,
        '"x" is not a node',
    ),
    "a pod that nothing can be expected of": (
        "expect:\n  - {never: evict, pod: x-1}",
        10,
        '"x-1" is not a pod',
    ),
    "a look after the end": ("expect:\n  - {at: 700, running: {web: 1}}", 10, "700 is after the end"),
    "a window without time": ("expect:\n  - {says: x, after: 9, before: 9}", 10, "no time between"),
    "a new policy that is wrong": (
        "events:\n  - {at: 1, policy: {name: dev}}",
        10,
        "events[0].policy.target: is missing",
    ),
    "new settings that are wrong": (
        "events:\n  - {at: 1, settings: {max_worker: 3}}",
        10,
        "unknown key; did you mean max_workers?",
    ),
    "new settings that contradict the old": (
        "events:\n  - {at: 1, settings: {max_workers: 1}}",
        10,
        "2 is above max_workers (1)",
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_the_place_and_what_is_allowed_are_said(wrong: tuple[str, int, str]) -> None:
    tail, line, says = wrong
    with pytest.raises(ConfigError) as caught:
        parse_story(f"{HEAD}{tail}\n", "wrong.yaml")
    told = str(caught.value)
    assert f"wrong.yaml line {line}" in told
    assert says in told
    assert "nothing ran" in told


WRONG_HEADS = {
    "settings": ("  pools:", "  cpu_upp: 0.5\n  pools:", 4, "unknown key; did you mean cpu_up?"),
    "a pool": ("{name: a1}", "{name: a1, pool: spot}", 6, '"spot" is not a pool; allowed: general'),
    "a type": ("{name: a1}", "{name: a1, type: cpx99}", 6, '"cpx99" is not a type; allowed: cpx32'),
    "a name twice": ("{name: a1}", "{name: a1}\n  - {name: a1}", 7, '"a1" is used twice'),
    "a name for launched ones": ("{name: a1}", "{name: new-1}", 6, "is kept for nodes that are launched"),
    "where a pod starts": ("cpu: 100m", "on: [a2]", 8, '"a2" is not a node of the story; allowed: a1'),
    "too many places": ("cpu: 100m", "on: [a1, a1]", 8, "names 2 nodes in on for 1 replicas"),
    "an amount": ("cpu: 100m", "memory: 2", 8, "2 is not an amount of memory with its unit; allowed: 8Gi"),
    "a kind": ("cpu: 100m", "kind: Deploymnt", 8, "allowed: Deployment, StatefulSet, DaemonSet, Job or Bare"),
    "a start": ("until: 600", "until: 600\nstart: soon", 3, "no time; allowed: a date with time"),
    "a runner": ("until: 600", "until: 600\nrunner: cron", 3, "allowed: daemon or lambda"),
    "no end": ("until: 600\n", "", 1, "until: is missing"),
    "a key twice": ("until: 600", "until: 600\nuntil: 700", 3, "the key stands twice"),
    "no YAML": ("until: 600", "until: [", 4, "is not valid YAML"),
}


@pytest.mark.parametrize("wrong", WRONG_HEADS.values(), ids=WRONG_HEADS.keys())
def test_what_is_wrong_with_the_cluster_is_said(wrong: tuple[str, str, int, str]) -> None:
    before, after, line, says = wrong
    with pytest.raises(ConfigError) as caught:
        parse_story(HEAD.replace(before, after, 1), "wrong.yaml")
    assert f"wrong.yaml line {line}" in str(caught.value)
    assert says in str(caught.value)


def test_all_problems_are_said_at_once() -> None:
    with pytest.raises(ConfigError, match="3 problems"):
        parse_story(f"{HEAD}runner: cron\ncolour: red\nevents:\n  - {{at: x, cordon: a1}}\n")


def test_the_command_ends_with_2_and_prints_no_json(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write("story.yaml", f"{HEAD}events:\n  - {{at: 1, node_dies: b9}}\n")
    done = shell.run("simulate", "story.yaml", "--json", code=2)
    assert done.out == ""
    assert "story.yaml line 10, events[0].node_dies" in done.err
    assert "allowed: a1" in done.err


def test_a_file_that_is_not_there_ends_with_2(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_story(tmp_path / "none.yaml")
