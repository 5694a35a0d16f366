"""All mutants of a module: where each is, how its statement reads before and after, and its code."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import CodeType
from typing import Any

from tests.mutation.chosen import name_of
from tests.mutation.replacing import can_be_swapped, expressions, statements

Function = ast.FunctionDef | ast.AsyncFunctionDef
FOR_PEOPLE = ("__repr__", "__str__")
LOGGED = ("log", "logger", "_log", "LOG")


@dataclass(frozen=True, slots=True)
class Change:
    holder: Any
    field: str
    index: int | None
    new: tuple[ast.AST, ...]
    """Instead of as many as these, from the index on."""

    @contextmanager
    def made(self) -> Iterator[None]:
        kept = getattr(self.holder, self.field)
        changed: object = self.new[0]
        if self.index is not None:
            changed = [*kept[: self.index], *self.new, *kept[self.index + len(self.new) :]]
        setattr(self.holder, self.field, changed)
        try:
            yield
        finally:
            setattr(self.holder, self.field, kept)


@dataclass(frozen=True, slots=True)
class Place:
    """What the changed piece is part of."""

    outermost: str
    """The function that is defined in a module or a class, as `__qualname__` has it."""
    statement: ast.AST


@dataclass(frozen=True, slots=True)
class Mutant:
    module: str
    file: Path
    function: str
    old: str
    new: str
    lines: range
    """Who reaches one of them reaches the change."""
    change: Change
    tree: ast.Module

    def code(self) -> CodeType:
        """That of the function or class of the module that holds the change, with the change in it."""
        name = self.function.partition(".")[0]
        parts = [one for one in self.tree.body if _is_of_the_future(one) or getattr(one, "name", "") == name]
        with self.change.made():
            changed = copy.deepcopy(ast.Module(parts, []))
        return compile(ast.fix_missing_locations(changed), str(self.file), "exec")

    def __str__(self) -> str:
        return f"{self.module}.{self.function}: {self.old}  ->  {self.new}"


def mutants_of(file: Path) -> list[Mutant]:
    tree = ast.parse(file.read_text())
    found = []
    for place, change in _changes(tree, "", None):
        old = _text(place.statement)
        new = _text_after(place.statement, change)
        if old != new:
            lines = _lines(place.statement)
            found.append(Mutant(name_of(file), file, place.outermost, old, new, lines, change, tree))
    return found


def _changes(node: ast.AST, inside: str, place: Place | None) -> Iterator[tuple[Place, Change]]:
    """Those below the node. No `place`: what is evaluated at import."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "type_params") or _is_an_assertion(node):
            continue
        several = isinstance(value, list)
        for index, child in enumerate(value if several else [value]):
            if not isinstance(child, ast.AST):
                continue
            now = place
            if place is not None and isinstance(child, ast.stmt | ast.match_case):
                now = Place(place.outermost, child)
            if now is not None and not _is_for_people(child):
                for new in _instead(child, node, field):
                    yield now, Change(node, field, index if several else None, (new,))
            yield from _below(child, inside, now)
        if place is not None and several:
            yield from _swapped(node, field, value, place.outermost)


def _below(child: ast.AST, inside: str, place: Place | None) -> Iterator[tuple[Place, Change]]:
    if _is_for_people(child) or isinstance(child, ast.Raise):
        return  # texts; whether it is raised at all has been changed above
    if isinstance(child, ast.ClassDef):
        yield from _changes(child, f"{inside}{child.name}.", place)
    elif isinstance(child, Function) and place is None:
        if child.name not in FOR_PEOPLE:
            for index, statement in enumerate(child.body):
                within = Place(f"{inside}{child.name}", statement)
                for new in _instead(statement, child, "body"):
                    yield within, Change(child, "body", index, (new,))
                yield from _below(statement, inside, within)
            yield from _swapped(child, "body", child.body, f"{inside}{child.name}")
    else:
        yield from _changes(child, inside, place)


def _swapped(holder: ast.AST, field: str, block: list[Any], function: str) -> Iterator[tuple[Place, Change]]:
    """Two neighbours that act, in the other order: what is written first is what a crash finds."""
    for index, (one, other) in enumerate(pairwise(block)):
        if isinstance(one, ast.stmt) and can_be_swapped(one, other):
            yield Place(function, _Both(one, other)), Change(holder, field, index, (other, one))


class _Both(ast.AST):
    """Two statements, as one piece of text."""

    def __init__(self, one: ast.stmt, other: ast.stmt) -> None:
        self.pair = (one, other)
        self.lineno, self.end_lineno = one.lineno, other.end_lineno


def _instead(node: ast.AST, holder: ast.AST, field: str) -> Iterator[ast.AST]:
    if isinstance(node, ast.expr):
        yield from (ast.copy_location(new, node) for new in expressions(node, holder, field))
    elif isinstance(node, ast.stmt) and not _is_for_people(node):
        yield from (ast.copy_location(new, node) for new in statements(node))


def _is_of_the_future(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _is_an_assertion(node: ast.AST) -> bool:
    """`zip(..., strict=True)` says that the lengths are known to be the same."""
    return isinstance(node, ast.keyword) and node.arg == "strict"


def _is_for_people(node: ast.AST) -> bool:
    """What is logged or said, and what a type checker needs."""
    if isinstance(node, ast.JoinedStr):
        return True
    if isinstance(node, ast.Expr):
        node = node.value
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        return called.value.id in LOGGED
    return isinstance(called, ast.Name) and called.id == "assert_never"


def _text_after(statement: ast.AST, change: Change) -> str:
    if isinstance(change.new[0], ast.stmt):
        return "; ".join(map(_text, change.new))
    with change.made():
        return _text(statement)


def _text(statement: ast.AST) -> str:
    """The statement on one line, without the blocks below it."""
    if isinstance(statement, _Both):
        return "; ".join(map(_text, statement.pair))
    if isinstance(statement, ast.match_case):
        guard = f" if {ast.unparse(statement.guard)}" if statement.guard else ""
        return f"case {ast.unparse(statement.pattern)}{guard}:"
    head = copy.copy(statement)
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        if hasattr(head, block) and not isinstance(head, ast.Expr):
            setattr(head, block, [ast.Pass()] if block == "body" else [])
    if isinstance(head, ast.Try):
        return "try:"
    return " ".join(
        line.strip() for line in ast.unparse(head).removesuffix("\n    pass").splitlines()
    ).strip()


def _lines(statement: ast.AST) -> range:
    if isinstance(statement, ast.match_case):
        return range(statement.pattern.lineno, statement.body[0].lineno)
    first: int = statement.lineno  # type: ignore[attr-defined]  # every statement has one
    last: int = statement.end_lineno  # type: ignore[attr-defined]
    if isinstance(statement, Function) and statement.decorator_list:
        first = statement.decorator_list[0].lineno
    blocks = [getattr(statement, name, None) for name in ("body", "cases")]
    for block in blocks:
        if isinstance(block, list) and block:
            below = block[0].pattern if isinstance(block[0], ast.match_case) else block[0]
            last = max(first, below.lineno - 1)
    return range(first, last + 1)
