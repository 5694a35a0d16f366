"""Sentences are shown and never read: whoever must know something asks the fact.

The report once counted answered spot losses as failures, since it looked for the word "completed".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "ebbtide"
MODULES = {
    str(path.relative_to(PACKAGE)): ast.parse(path.read_text("utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}
SCRIPTS = sorted((PACKAGE / "entrypoints" / "dashboard" / "static").glob("*.js"))
READS = re.compile(
    r"\.says\s*(\?\.|\.|===|!==|==|\[)|(exec|test|match|includes|startsWith)\([^)]*\.says\b|\bin\s+\w+\.says"
)
STORIES = "simulator/story/judge.py"
"""A story may say which words somebody must have read."""
ENTRIES_ARE_MADE_IN = {
    "narrate.py",
    "adapters/stores/sql/store.py",
    "adapters/stores/dynamodb/log.py",
}
"""By `entry_of`, and read back by the stores."""


def is_sentence(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "says"


def readers(tree: ast.AST) -> Iterator[int]:
    """Lines that look into a sentence: compare, search, cut or measure it."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare() if any(map(is_sentence, [node.left, *node.comparators])):
                yield node.lineno
            case ast.Attribute() | ast.Subscript() if is_sentence(node.value):
                yield node.lineno
            case ast.For() | ast.comprehension() if is_sentence(node.iter):
                yield node.iter.lineno
            case ast.Match() if is_sentence(node.subject):
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"))) if any(map(is_sentence, node.args)):
                yield node.lineno
            case ast.Call(func=ast.Name(id="len" | "sorted" | "set")) if any(map(is_sentence, node.args)):
                yield node.lineno


def id_readers(tree: ast.AST) -> Iterator[int]:
    """Lines that ask what an id of an operation begins or ends with."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="startswith" | "endswith" | "removeprefix", value=value)):
                name = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
                if name in {"id", "operation_id", "decision_id"}:
                    yield node.lineno


def test_no_module_reads_a_sentence_or_the_beginning_of_an_id() -> None:
    found = [
        f"{name}:{line}"
        for name, tree in MODULES.items()
        if name != STORIES
        for line in (*readers(tree), *id_readers(tree))
    ]
    assert found == []
    assert list(readers(MODULES[STORIES])), "it need not be excused any more"


@pytest.mark.parametrize("path", SCRIPTS, ids=[path.name for path in SCRIPTS])
def test_no_page_reads_a_sentence(path: Path) -> None:
    assert [line for line in path.read_text().splitlines() if READS.search(line)] == []


@pytest.mark.parametrize(
    "code",
    [
        "'completed' in entry.says",
        "entry.says == 'x'",
        "entry.says.startswith('x')",
        "entry.says[0]",
        "re.search('x', entry.says)",
        "len(entry.says)",
        "[word for word in entry.says]",
    ],
)
def test_whoever_read_a_sentence_would_be_found(code: str) -> None:
    assert list(readers(ast.parse(code)))
    assert list(id_readers(ast.parse("operation_id.startswith('spot:')")))


@pytest.mark.parametrize(
    "code", ["f'{entry.says}'", "show(entry.says)", "entry.says or 'nothing'", "x = e.says"]
)
def test_showing_a_sentence_is_not_reading_it(code: str) -> None:
    assert not list(readers(ast.parse(code)))


def test_entries_are_made_from_facts_alone() -> None:
    """So that none is without data, and none has a sentence of its own."""
    made = {
        name
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "LogEntry"
    }
    assert made == ENTRIES_ARE_MADE_IN
