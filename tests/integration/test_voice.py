"""The word lint of `make check`: it finds a word wherever people read it, and not in names."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.voice import findings, names

ROOT = Path(__file__).resolve().parents[2]


def tree(folder: Path, path: str, text: str) -> Path:
    for name in ("README", "GLOSSARY", "ARCHITECTURE", "CONTRIBUTING", "SECURITY"):
        (folder / f"{name}.md").write_text("")
    (folder / "CHANGELOG.md").write_text("# Changelog\n\n## 0.1.0\n\nA dear thing.\n")
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("README.md", "The dear nodes go first."),
        ("docs/how-to/x.md", "Nodes are removed so\nthat the rest is full."),
        ("CHANGELOG.md", "# Changelog\n\n## 0.2.0, not yet released\n\n- Packs anew.\n\n## 0.1.0\n\nDear.\n"),
        ("src/ebbtide/x.py", '"""Keeps the figures."""\n'),
        ("src/ebbtide/x.py", "x = 1  # whoever holds it\n"),
        ("src/ebbtide/x.py", 'x = f"{1} pods wait: {2}"\n'),
        ("src/ebbtide/x.js", 'card("Under way", 1);\n'),
        ("src/ebbtide/x.html", "<p>This is to be had.</p>\n"),
        ("docs/x.md", "The next runner goes on."),
        ("README.md", "It is kept for ever."),
        ("src/ebbtide/x.py", 'x = f"{1!r} is no number"\n'),
        ("docs/x.md", "The table shows what came of each run."),
        ("tests/unit/test_x.py", "def test_a_node_that_is_passed_over_stays() -> None: ...\n"),
        ("tests/unit/test_x.py", '"""Nothing is lost for good."""\n'),
        ("bench/bench_x.py", "x = 1  # the figures of a run\n"),
        ("deploy/x.yaml", "kind: Role  # for whoever may read\n"),
        ("deploy/x.yaml", "parameter:\n  Description: So that it may read.\n"),
        ("deploy/x/NOTES.txt", "It goes on.\n"),
    ],
)
def test_a_word_is_found_where_people_read_it(tmp_path: Path, path: str, text: str) -> None:
    (found,) = findings(tree(tmp_path, path, text))
    assert found.path == path


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("README.md", "`figures` is a key.\n\n```\nbeside: 1\n```\n"),
        ("src/ebbtide/x.py", 'figures = {"waiting": 1, "beside": 2}\n'),
        ("src/ebbtide/x.py", '"""The field `figures` is part of the API."""\n'),
        ("src/ebbtide/x.js", "const figures = status.waiting;\n"),
        ("docs/x.md", "There is no pool, and it is no longer needed."),
        (
            "tests/unit/test_x.py",
            'def under_way() -> None:\n    """ "a pod is passed over", says the document."""\n',
        ),
    ],
)
def test_names_are_left_alone(tmp_path: Path, path: str, text: str) -> None:
    assert not list(findings(tree(tmp_path, path, text)))


REPLACED = (
    "It was made for the half that people fear: taking nodes away.",
    "So that nobody overwrites what he has not read.",
    "Limits are reached, not passed.",
    "Removed are first the dear, then the old, then the long idle.",
    "A consolidation of whose nodes too few went.",
    "There is no TLS in it: put an Ingress that has before it.",
    "It rests until 1793602800.",
    "Forget the entries of before that second, but for those of the ledger.",
    "Figures are served.",
    "Pods waiting for a node.",
    "A removal is under way.",
    "It is packed anew.",
    "The store stands beside it.",
)
"""What was written once and has a plainer equivalent."""


@pytest.mark.parametrize("sentence", REPLACED)
def test_a_sentence_that_was_replaced_does_not_come_back(tmp_path: Path, sentence: str) -> None:
    assert list(findings(tree(tmp_path, "docs/x.md", sentence)))


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("src/ebbtide/engine/x.py", "class Hold:\n    pass\n"),
        ("src/ebbtide/engine/x.py", "def begun(record): ...\n"),
        ("src/ebbtide/engine/x.py", "def open_it(unclean_runs): ...\n"),
        ("src/ebbtide/adapters/kube/following.py", ""),
    ],
)
def test_a_name_that_was_given_up_does_not_come_back(tmp_path: Path, path: str, code: str) -> None:
    (found,) = names(tree(tmp_path, path, code))
    assert found.path == path


def test_the_fields_of_stored_records_keep_their_names(tmp_path: Path) -> None:
    code = "class Record:\n    unclean_runs: int = 0\n"
    assert not list(names(tree(tmp_path, "src/ebbtide/model/x.py", code)))


def test_everything_people_read_passes() -> None:
    assert [str(each) for each in (*findings(ROOT), *names(ROOT))] == []
