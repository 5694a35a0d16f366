"""Conditions that a database checks: they are texts, so changes of the code around them say nothing about
them.

Each comparison is made to hold always, or never, and each boundary is shifted by one. Names and values stay
in the text: DynamoDB refuses values that no expression uses, which would be noticed for another reason.

`clauses_of` changes texts that are constants of a module; those within functions are changed with the rest.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.chosen import name_of

ATOM = re.compile(
    r"attribute_not_exists\((?P<missing>\w+)\)|(?P<left>[\w.#]+) (?P<sign>=|<>|<=|>=|<|>) (?P<right>:?[\w.]+)"
)
GLUE = re.compile(r"(?:\s|\(|\)|AND\b|OR\b)*")
WHERE = re.compile(r"\bWHERE\s+(.+?)\s+RETURNING\b", re.DOTALL)
SHIFTED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


@dataclass(frozen=True, slots=True)
class Clause:
    """Another text for a constant. It has what a `Mutant` has, and is planted by setting the constant."""

    module: str
    function: str
    """The name of the constant."""
    old: str
    new: str
    lines: frozenset[int]
    """Of the functions that use it."""
    value: str

    def plant(self) -> None:
        setattr(importlib.import_module(f"ebbtide.{self.module}"), self.function, self.value)

    def __str__(self) -> str:
        return f"{self.module}.{self.function}: {self.old}  ->  {self.new}"


def clauses_of(file: Path) -> list[Clause]:
    tree = ast.parse(file.read_text())
    used = _used(tree)
    if not used:
        return []
    module = importlib.import_module(f"ebbtide.{name_of(file)}")
    found = []
    for name, lines in used.items():
        text = getattr(module, name, None)
        for changed in clauses(text) if isinstance(text, str) else ():
            old, new = (" ".join(each.split()) for each in (str(text), changed))
            found.append(Clause(name_of(file), name, old, new, lines, changed))
    return found


def _used(tree: ast.Module) -> dict[str, frozenset[int]]:
    """The constants that are defined here and used by functions, with the lines of these functions."""
    defined = {
        target.id
        for statement in tree.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant | ast.JoinedStr)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    found: dict[str, frozenset[int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = frozenset(range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1))
            for name in {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} & defined:
                found[name] = found.get(name, frozenset()) | lines
    return found


def clauses(text: str) -> Iterator[str]:
    """What could stand instead of a condition; nothing where the text is none."""
    begin, end = 0, len(text)
    if found := WHERE.search(text):
        begin, end = found.span(1)
    atoms = list(ATOM.finditer(text, begin, end))
    if not atoms or not GLUE.fullmatch(ATOM.sub("", text[begin:end])):
        return
    for atom in atoms:
        for new in _instead(atom):
            yield text[: atom.start()] + new + text[atom.end() :]


def _instead(atom: re.Match[str]) -> Iterator[str]:
    whole = atom[0]
    if missing := atom["missing"]:
        there = f"attribute_exists({missing})"
        yield f"({whole} OR {there})"
        yield f"({whole} AND {there})"
        return
    left, sign, right = atom["left"], atom["sign"], atom["right"]
    yield f"({whole} OR {left} = {right} OR {left} <> {right})"
    yield f"({whole} AND {left} = {right} AND {left} <> {right})"
    if sign in SHIFTED:
        yield f"{left} {SHIFTED[sign]} {right}"
