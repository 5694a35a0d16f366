"""`ebbtide pack` on files: what it prints, and what it says of files that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ebbtide.entrypoints.pack import pack_command, read_items, read_types

PODS = "name,cpu_milli,memory_mib\na,1000,1024\nb,1000,1024\nc,500,2048\n"
TYPES = "name,cpu_milli,memory_mib,pods,price\nsmall,2000,4096,10,0.1\nlarge,8000,16384,50,0.35\n"


class Files:
    def __init__(self, folder: Path) -> None:
        self.pods, self.types = folder / "pods.csv", folder / "types.csv"
        self.pods.write_text(PODS, encoding="utf-8")
        self.types.write_text(TYPES, encoding="utf-8")

    def pack(self, deadline: float = 5.0, as_json: bool = True) -> int:
        return pack_command(self.pods, self.types, deadline, as_json)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_the_plan_is_printed_as_json(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert files.pack() == 0

    plan = json.loads(capsys.readouterr().out)
    assert list(plan) == ["cost", "bound", "gap", "seconds", "nodes", "unplaced"]
    assert plan["cost"] == pytest.approx(0.2)
    assert plan["bound"] <= plan["cost"]
    assert plan["gap"] == pytest.approx(plan["cost"] / plan["bound"] - 1)
    assert sorted(pod for node in plan["nodes"] for pod in node["pods"]) == ["a", "b", "c"]
    assert {node["type"] for node in plan["nodes"]} == {"small"}
    assert plan["unplaced"] == []


def test_the_plan_is_shown_as_a_table(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert files.pack(as_json=False) == 0

    shown = capsys.readouterr().out
    assert "2 nodes" in shown
    assert "cost 0.2000 an hour" in shown


def test_a_long_table_is_cut_and_says_so(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"p{number},2000,4096\n" for number in range(50))
    files.pods.write_text("name,cpu_milli,memory_mib\n" + rows, encoding="utf-8")
    files.types.write_text("name,cpu_milli,memory_mib,pods,price\nt,2000,4096,9,1\n", encoding="utf-8")

    assert files.pack(as_json=False) == 0
    assert "and 10 more: --json has them all" in capsys.readouterr().out


def test_a_pod_larger_than_any_type_is_left_out_aloud(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"huge{number},99000,1\n" for number in range(12))
    files.pods.write_text(PODS + rows, encoding="utf-8")

    assert files.pack() == 0

    printed = capsys.readouterr()
    plan = json.loads(printed.out)
    (unplaced,) = plan["unplaced"]
    assert unplaced["pods"] == [f"huge{number}" for number in range(12)]
    assert "more than any type" in unplaced["reason"]
    assert sorted(pod for node in plan["nodes"] for pod in node["pods"]) == ["a", "b", "c"]
    assert "left out: huge0, huge1" in printed.err
    assert "huge11" not in printed.err


def test_columns_may_stand_in_any_order_next_to_others(files: Files) -> None:
    files.pods.write_bytes(b"\xef\xbb\xbfqos, memory_mib ,name,cpu_milli\r\nBE,2,x,1\r\n\r\nBE, 2,y,1\r\n")

    (item,) = read_items(files.pods)

    assert (item.cpu_milli, item.memory_mib, item.names) == (1, 2, ("x", "y"))


def test_types_are_read_with_their_price(files: Files) -> None:
    assert [(t.name, t.cpu_milli, t.memory_mib, t.pods, t.price) for t in read_types(files.types)] == [
        ("small", 2000, 4096, 10, 0.1),
        ("large", 8000, 16384, 50, 0.35),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "pods.csv: the file is empty"),
        ("name,cpu_milli,memory_mib\n", "pods.csv:1: nothing follows the header"),
        ("name,cpu_milli\na,1\n", "pods.csv:1: no column memory_mib"),
        ("name,cpu_milli,memory_mib\na,1\n", "pods.csv:2: 2 fields where the header has 3"),
        ("name,cpu_milli,memory_mib\na,-5,1\n", "pods.csv:2: cpu_milli is -5: write 0 or more"),
        ("name,cpu_milli,memory_mib\na,1,1Gi\n", "pods.csv:2: memory_mib is '1Gi': write a whole number"),
        ("name,cpu_milli,memory_mib\na,1,1\nb,1,1\na,2,2\n", "pods.csv:2: a is named again further down"),
        ("name,cpu_milli,memory_mib\n,1,1\n", "pods.csv:2: the name is missing"),
        ("name,cpu_milli,memory_mib\na,1,\xff\n", "not a CSV file in UTF-8"),
    ],
)
def test_pods_that_cannot_be_used_are_told_with_file_and_line(
    files: Files, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    files.pods.write_bytes(text.encode("latin-1"))

    assert files.pack() == 2

    printed = capsys.readouterr()
    assert told in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("t,2000,4096,10,", "types.csv:2: the price is missing"),
        ("t,2000,4096,10,free", "types.csv:2: the price is 'free': write a number above 0"),
        ("t,2000,4096,10,-1", "types.csv:2: the price is '-1'"),
        ("t,2000,4096,10,inf", "types.csv:2: the price is 'inf'"),
        ("t,0,4096,10,1", "types.csv:2: cpu_milli is 0: write 1 or more"),
        ("t,1,4096,10,1\nt,1,1,1,1", "types.csv:2: t is named again"),
    ],
)
def test_types_that_cannot_be_used_are_told_with_file_and_line(
    files: Files, capsys: pytest.CaptureFixture[str], row: str, told: str
) -> None:
    files.types.write_text(f"name,cpu_milli,memory_mib,pods,price\n{row}\n", encoding="utf-8")

    assert files.pack() == 2
    assert told in capsys.readouterr().err


def test_of_many_wrong_lines_the_first_are_told(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"p{number},-{number + 1},1\n" for number in range(15))
    files.pods.write_text("name,cpu_milli,memory_mib\n" + rows, encoding="utf-8")

    assert files.pack() == 2

    told = capsys.readouterr().err
    assert "pods.csv:11:" in told
    assert "pods.csv:12:" not in told
    assert "and 5 more" in told


def test_a_file_that_is_not_there_is_told(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.types.unlink()

    assert files.pack() == 2
    assert "types.csv: No such file" in capsys.readouterr().err


@pytest.mark.parametrize("deadline", [0.0, -1.0, float("nan"), float("inf")])
def test_a_deadline_without_time_is_told(
    files: Files, capsys: pytest.CaptureFixture[str], deadline: float
) -> None:
    assert files.pack(deadline=deadline) == 2
    assert "leaves no time" in capsys.readouterr().err
