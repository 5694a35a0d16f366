"""Recordings: one file that plays as a story, made of a CSV trace, and refused where it is wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ebbtide.config.document import Read
from ebbtide.config.load import build_config
from ebbtide.errors import ConfigError
from ebbtide.simulator.recording.file import (
    VERSION,
    Recorded,
    Recording,
    Series,
    anonymised,
    is_recording,
    read_recording,
    write_recording,
)
from ebbtide.simulator.recording.trace import TracePods, record_trace
from ebbtide.simulator.story import play, read_story
from tests.e2e.shell import Shell
from tests.stories.playing import NODES, POOLS

PODS = TracePods("500m", "512Mi")
CONFIG = "min_workers: 2\nmax_workers: 10\npools: [{name: general, types: [cpx32], zones: [a, b]}]\n"
TRACE = "seconds,web,api\n0,4,1\n300,12,1\n600,12,\n900,3,2\n"


def recording(**keys: Any) -> Recording:
    story = {
        "name": "recorded",
        "until": 1800,
        "settings": {"pools": POOLS},
        "nodes": NODES,
        "workloads": [{"name": "web", "cpu": "500m", "memory": "512Mi"}],
    }
    demand = {"default/web": Series([0.0, 600.0], [4, 24])}
    return Recording(VERSION, {**story, **keys}, demand, Recorded(source="CSV trace.csv", node_hours=1.0))


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_recording_is_read_as_it_was_written_and_is_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "a.ebb", tmp_path / "b.ebb"
    size = write_recording(first, recording())
    write_recording(second, recording())
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size == size
    assert read_recording(first) == recording()
    assert [path.name for path in tmp_path.iterdir()] in (["a.ebb", "b.ebb"], ["b.ebb", "a.ebb"])


def test_a_recording_plays_as_a_story(tmp_path: Path) -> None:
    write_recording(tmp_path / "month.ebb", recording())
    result = play(read_story(tmp_path / "month.ebb"))
    assert result.ok
    assert result.launched > 0
    assert result.waits.pods > 0


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is not a recording"),
        (b"name: a story", "is not a recording"),
        (gzip.compress(b'{"ebb": 1, "story": {}}')[:-9], "not the whole of one"),
        (gzip.compress(b'{"ebb": 99, "story": {}, "later": 1}'), "has version 99, this Ebbtide knows 1"),
        (gzip.compress(b'{"ebb": 1}'), "is damaged"),
        (
            gzip.compress(b'{"ebb":1,"story":{},"demand":{"d/w":{"at":[5,1],"replicas":[1,1]}}}'),
            "times that go back",
        ),
        (
            gzip.compress(b'{"ebb":1,"story":{},"demand":{"d/w":{"at":[5],"replicas":[1,1]}}}'),
            "1 times and 2",
        ),
        (gzip.compress(b'{"ebb":1,"story":{},"demand":{"d/w":{"at":[5],"replicas":[-1]}}}'), "negative"),
    ],
)
def test_what_is_no_recording_is_refused_and_says_what_to_do(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "month.ebb"
    path.write_bytes(data)
    assert is_recording(path)
    with pytest.raises(ConfigError, match=says) as error:
        read_recording(path)
    assert "nothing ran" in str(error.value)


def test_demand_of_what_is_no_workload_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "month.ebb"
    write_recording(path, recording(workloads=[]))
    with pytest.raises(ConfigError, match="demand of default/web, which is not a workload"):
        read_story(path)


def test_nothing_is_left_where_it_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "month.ebb").mkdir()
    with pytest.raises(ConfigError, match="nothing was left behind"):
        write_recording(tmp_path / "month.ebb", recording())
    assert [path.name for path in tmp_path.iterdir()] == ["month.ebb"]
    with pytest.raises(ConfigError, match="cannot be read"):
        read_recording(tmp_path / "none.ebb")


def test_a_trace_is_recorded_by_its_changes(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    found = record_trace(tmp_path / "trace.csv", PODS, {}, "2026-01-01T00:00:00Z")
    assert found.demand["default/web"] == Series([0.0, 300.0, 900.0], [4, 12, 3])
    assert found.demand["default/api"] == Series([0.0, 900.0], [1, 2])
    assert found.story["until"] == 1200
    assert found.recorded.coverage == {"demand": 0.875}


def test_a_gap_in_a_trace_is_told_with_its_place_and_what_to_do(tmp_path: Path) -> None:
    rows = "".join(f"{at},4\n" for at in (0, 300, 600, 1500, 1800, 2100))
    (tmp_path / "trace.csv").write_text(f"seconds,web\n{rows}")
    told: list[str] = []
    found = record_trace(tmp_path / "trace.csv", PODS, {}, "2026-01-01T00:00:00Z", told.append)
    assert found.recorded.coverage == {"demand": 0.75}
    assert told == [
        "web is not known for 10 min, the longest from second 600 to 1500: the value before holds there. "
        "Fill it in the trace, or record a time without gaps"
    ]


def test_a_trace_of_changes_has_no_gap_between_them(tmp_path: Path) -> None:
    """Every quiet hour of it was said to be unknown."""
    (tmp_path / "trace.csv").write_text(
        "seconds,replicas,workload\n0,4,web\n60,5,web\n120,6,web\n7200,4,web\n"
    )
    told: list[str] = []
    found = record_trace(tmp_path / "trace.csv", PODS, {}, "2026-01-01T00:00:00Z", told.append)
    assert (told, found.recorded.coverage) == ([], {"demand": 1.0})


def test_a_value_may_be_what_many_pods_handle(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("seconds,replicas,workload\n0,100,Web Shop\n300,101,Web Shop\n")
    found = record_trace(
        tmp_path / "trace.csv", TracePods("1", "1Gi", per_pod=50), {}, "2026-01-01T00:00:00Z"
    )
    assert found.demand == {"default/web-shop": Series([0.0, 300.0], [2, 3])}


def test_a_compressed_trace_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "trace.csv.gz").write_bytes(gzip.compress(TRACE.encode()))
    assert record_trace(tmp_path / "trace.csv.gz", PODS, {}, "2026-01-01T00:00:00Z").demand


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: the first line must name the columns"),
        ("time,web\n0,1\n", "line 1: the first line must name the columns"),
        ("seconds,web\n", "no value after its header"),
        ("seconds,web\n0,one\n", "line 2, web: 'one' is not a number"),
        ("seconds,web\n0,-1\n", "line 2, web: '-1' is not a number"),
        ("seconds,web\n60,1\n0,1\n", "line 3: 0 goes back"),
        ("seconds,web\n0,1,2\n", "line 2: 3 columns instead of 2"),
        ("seconds,web\n0,1e300\n", "asks for 1e\\+300 pods of web at once, at most 1,000,000"),
        ("seconds,Web a,web-a\n0,1,2\n", "two columns are both a workload named 'web-a'"),
    ],
)
def test_a_wrong_trace_is_refused_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "trace.csv").write_text(text)
    with pytest.raises(ConfigError, match=says) as error:
        record_trace(tmp_path / "trace.csv", PODS, {}, "2026-01-01T00:00:00Z")
    assert "nothing was recorded" in str(error.value)


def test_a_recording_without_names_plays_the_same() -> None:
    named = recording(
        workloads=[
            {
                "name": "web", "namespace": "shop", "cpu": "500m", "memory": "512Mi",
                "annotations": {"owner": "me"}, "on": ["a1"], "replicas": 4,
            }
        ]
    )  # fmt: skip
    named = msgspec.structs.replace(named, demand={"shop/web": Series([0.0], [4])})
    text = msgspec.json.encode(anonymised(named)).decode()
    assert not any(word in text for word in ("shop", "web", "trace", '"me"', "a1"))
    assert json.loads(text)["demand"] == {"ns-1/workload-1": {"at": [0.0], "replicas": [4]}}
    assert json.loads(text)["recorded"]["source"] == "CSV"


def test_without_names_what_decides_about_evictions_and_places_stays() -> None:
    named = recording(
        nodes=[
            {
                "name": "acme-7", "pool": "general",
                "labels": {"kubernetes.io/hostname": "acme-7", "owner": "acme", "disk": "ssd"},
            }
        ],
        workloads=[
            {
                "name": "mc", "cpu": "500m", "memory": "2Gi", "priority_class": "acme-gold",
                "annotations": {
                    "ebbtide.dev/plan": "acme-special", "ebbtide.dev/players": "20", "owner": "acme",
                    "ebbtide.dev/safe-to-evict": "false",
                },
                "node_selector": {"disk": "ssd", "kubernetes.io/hostname": "acme-7"},
            },
            {"name": "dns", "cpu": "100m", "memory": "64Mi", "priority_class": "system-cluster-critical"},
        ],
    )  # fmt: skip
    named = msgspec.structs.replace(named, demand={"default/mc": Series([0.0], [1])})
    found = anonymised(named)
    assert "acme" not in msgspec.json.encode(found).decode()
    (node,), (server, dns) = found.story["nodes"], found.story["workloads"]
    assert server["annotations"] == {
        "ebbtide.dev/plan": "other",
        "ebbtide.dev/players": "20",
        "ebbtide.dev/safe-to-evict": "false",
    }
    assert server["node_selector"] == {"disk": "ssd", "kubernetes.io/hostname": node["name"]}
    assert (node["labels"], dns["priority_class"]) == ({"disk": "ssd"}, "system-cluster-critical")
    assert named.story["workloads"][0]["node_selector"]["kubernetes.io/hostname"] == "acme-7"


def test_the_command_records_and_simulates(shell: Shell) -> None:
    shell.write("ebbtide.yaml", CONFIG + "api: {tokens: []}\n")
    shell.write("trace.csv", TRACE)
    said = shell.run(
        "record", "--csv", "trace.csv", "--cpu", "500m", "--memory", "512Mi", "-o", "month.ebb"
    ).out
    assert "month.ebb: 2 workloads over 20 min" in said
    assert "known: demand 87.5% of the time" in said
    assert "api" not in read_recording(shell.folder / "month.ebb").story["settings"]
    assert json.loads(shell.run("simulate", "month.ebb", "--json").out)["ok"]


def test_a_recording_without_a_configuration_names_the_pool_and_the_limit_that_it_has(shell: Shell) -> None:
    shell.write("trace.csv", TRACE)
    ask = ("record", "--csv", "trace.csv", "--cpu", "500m", "--memory", "512Mi", "-o", "month.ebb")
    told = shell.run(*ask).err
    default = build_config(Read(), {}).settings
    assert f"at most {default.max_workers} workers" in told
    assert all(one.name in told for pool in default.pools for one in pool.types)
    assert "--config" in told
    shell.write("ebbtide.yaml", CONFIG)
    assert "--config" not in shell.run(*ask).err


def test_a_trace_without_requests_is_refused(shell: Shell) -> None:
    shell.write("trace.csv", TRACE)
    refused = shell.run("record", "--csv", "trace.csv", "--cpu", "500m", "-o", "month.ebb", code=2)
    assert "without memory requests nothing can be planned" in refused.err
    assert shell.files() == ["trace.csv"]
    assert "one source to record from" in shell.run("record", "-o", "month.ebb", code=2).err
    assert "there is no log" in shell.run("record", "--log", "-o", "month.ebb", code=2).err
    assert shell.files() == ["trace.csv"]


@pytest.mark.parametrize(
    ("cpu", "memory", "says"),
    [
        ("lots", "512Mi", "--cpu 'lots' is not an amount of CPU"),
        ("500m", "512", "--memory '512' is not an amount of memory with its unit"),
    ],
)
def test_a_wrong_request_of_a_trace_is_refused(shell: Shell, cpu: str, memory: str, says: str) -> None:
    shell.write("ebbtide.yaml", CONFIG)
    shell.write("trace.csv", TRACE)
    arguments = ("record", "--csv", "trace.csv", "--cpu", cpu, "--memory", memory, "-o", "month.ebb")
    refused = shell.run(*arguments, code=2).err
    assert says in refused
    assert "nothing was written" in refused
    assert shell.files() == ["ebbtide.yaml", "trace.csv"]
