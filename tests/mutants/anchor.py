"""Where a planted bug goes: a function, by its name, and a piece of syntax in it.

The function is looked for in the whole package, so a module can move; the piece is compared as syntax, so the
code can be formatted in another way, and comments do not matter. Found must be exactly one place.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "ebbtide"
Function = ast.FunctionDef | ast.AsyncFunctionDef


class DoesNotApply(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Place:
    """A piece of a file: from the first node's start to the last node's end."""

    file: Path
    nodes: tuple[ast.AST, ...]


@dataclass(frozen=True, slots=True)
class Planted:
    file: Path
    """Below the package."""
    source: str


def planted(function: str, old: str, new: str) -> Planted:
    """The file with `new` in the one place of `function` where `old` is."""
    pattern = _parsed(old)
    owners = [(file, node) for file, name, node in _functions() if _is_called(name, function)]
    if not owners:
        raise DoesNotApply(f"there is no function {function}")
    places = [place for file, node in owners for place in _places(file, node, pattern)]
    if len(places) != 1:
        where = ", ".join(str(place.file) for place in places) or ", ".join(str(file) for file, _ in owners)
        raise DoesNotApply(f"its code is {len(places)} times in {function} ({where}), not once")
    return Planted(places[0].file, _replaced(places[0], new))


@cache
def _functions() -> tuple[tuple[Path, str, Function], ...]:
    """Every function of the package with its dotted name, module and class included."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE)
        module = ".".join(file.with_suffix("").parts)
        found += [(file, name, node) for name, node in _named(ast.parse(path.read_text()), module)]
    return tuple(found)


def _named(node: ast.AST, name: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield f"{name}.{child.name}", child
        if isinstance(child, Function | ast.ClassDef):
            yield from _named(child, f"{name}.{child.name}")
        else:
            yield from _named(child, name)


def _is_called(name: str, function: str) -> bool:
    return f".{name}".endswith(f".{function}")


def _parsed(code: str) -> ast.expr | list[ast.stmt]:
    body = ast.parse(textwrap.dedent(code)).body
    match body:
        case [ast.Expr(value=expression)]:
            return expression
        case []:
            raise DoesNotApply("it does not say which code it replaces")
        case _:
            return body


def _places(file: Path, function: Function, pattern: ast.expr | list[ast.stmt]) -> Iterator[Place]:
    if isinstance(pattern, ast.expr):
        wanted = ast.dump(pattern)
        whole = {node.value: node for node in ast.walk(function) if isinstance(node, ast.Expr)}
        for node in ast.walk(function):
            if isinstance(node, ast.expr) and ast.dump(node) == wanted:
                yield Place(file, (whole.get(node, node),))  # a call that stands alone is a statement
        return
    lines = [ast.dump(statement) for statement in pattern]
    for block in _blocks(function):
        dumped = [ast.dump(statement) for statement in block]
        for start in range(len(block) - len(lines) + 1):
            if dumped[start : start + len(lines)] == lines:
                yield Place(file, tuple(block[start : start + len(lines)]))


def _blocks(function: Function) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield value


def _replaced(place: Place, new: str) -> str:
    """Only that piece changes: whatever reads comments or line numbers finds the rest as it was."""
    source = (PACKAGE / place.file).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    first, last = place.nodes[0], place.nodes[-1]
    if not isinstance(first, ast.expr | ast.stmt) or not isinstance(last, ast.expr | ast.stmt):
        raise TypeError(f"{first} has no place in a file")
    begin = starts[first.lineno - 1] + first.col_offset
    end = starts[(last.end_lineno or last.lineno) - 1] + (last.end_col_offset or 0)
    text = textwrap.dedent(new).strip()
    if isinstance(first, ast.expr):
        text = f"({text})" if text else ""
    else:
        text = textwrap.indent(text or "pass", " " * first.col_offset).lstrip()
    return (source[:begin] + text.encode() + source[end:]).decode()
