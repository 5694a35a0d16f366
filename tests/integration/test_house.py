"""`python -m scripts.house` measures the tree. Checked is only that it can."""

from __future__ import annotations

from pathlib import Path

from scripts.call_graph import WALKS, CallGraph
from scripts.house import measure, table

ROOT = Path(__file__).resolve().parents[2]


def test_the_tree_is_measured() -> None:
    found = measure(ROOT)
    assert int(found["files"]) > 100
    assert int(found["lines"]) > 10_000
    assert all("unknown" not in value for value in found.values())
    shown = table({"before": found, "after": found}).splitlines()
    assert shown[0].split() == ["before", "after"]
    assert len(shown) == len(found) + 1


def test_every_walked_path_is_followed_from_its_start_to_each_end() -> None:
    graph = CallGraph(ROOT / "src" / "ebbtide")
    for walk in WALKS:
        files = graph.files_on(walk)
        assert any(name.endswith(f".{walk.start.split('.')[0]}") for name in files), walk.name
