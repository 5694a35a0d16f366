"""The small changes: what else could stand where an expression or a statement stands."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import TypeVar

from tests.mutation.clauses import clauses

T = TypeVar("T")
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
ORDERLESS = ("isinstance", "issubclass", "getattr", "hasattr", "cast", "suppress", "zip")
"""Swapping their arguments is an error at once, or nothing at all."""


def expressions(node: ast.expr, holder: ast.AST, field: str) -> Iterator[ast.expr]:
    """What could stand where `node` is, in that field of its holder."""
    if isinstance(holder, ast.comprehension) and field == "ifs":
        yield ast.Constant(True)
    if field in ("test", "guard") and not _has_an_opposite(node):
        yield ast.UnaryOp(ast.Not(), node)
    match node:
        case ast.Compare():
            yield from _compared(node)
        case ast.BoolOp():
            yield from _combined(node)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.Constant():
            yield from _constants(node, holder, field)
        case ast.BinOp() if not _is_text(node.left) and not _is_text(node.right):
            other = COMPUTED.get(type(node.op))
            if other is not None:
                yield ast.BinOp(node.left, other(), node.right)
        case ast.Call():
            yield from _calls(node)
        case ast.Dict():
            for index, key in enumerate(node.keys):
                if isinstance(key, ast.Constant):
                    yield ast.Dict(_without(node.keys, index), _without(node.values, index))


def statements(node: ast.stmt) -> Iterator[ast.stmt]:
    """What could stand where this statement is."""
    match node:
        case ast.Return(value=ast.expr() as value) if not _is_none(value) and not _is_false(value):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()):
            yield ast.Pass()
        case ast.Raise() | ast.AugAssign() | ast.Delete():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()


def can_be_swapped(one: ast.stmt, other: ast.stmt) -> bool:
    """Both act, one for nothing but its effect, and the second needs nothing that the first has made."""
    if not isinstance(one, ast.Expr) and not isinstance(other, ast.Expr):
        return False
    if not all(isinstance(each, ast.Expr | ast.Assign) and _acts(each) for each in (one, other)):
        return False
    made = {
        node.id for node in ast.walk(one) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return not any(isinstance(node, ast.Name) and node.id in made for node in ast.walk(other))


def _acts(statement: ast.stmt) -> bool:
    """Calls a method: a plain function of ours decides, and does nothing."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) for node in ast.walk(statement)
    )


def _compared(node: ast.Compare) -> Iterator[ast.expr]:
    for index, operator in enumerate(node.ops):
        changed = [*node.ops]
        changed[index] = COMPARED[type(operator)]()
        yield ast.Compare(node.left, changed, node.comparators)


def _combined(node: ast.BoolOp) -> Iterator[ast.expr]:
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for index in range(len(node.values)):
        rest = _without(node.values, index)
        yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _constants(node: ast.Constant, holder: ast.AST, field: str) -> Iterator[ast.expr]:
    match node.value:
        case bool():
            yield ast.Constant(not node.value)
        case int() | float():
            yield ast.Constant(node.value + 1)
        case str() if isinstance(holder, ast.Compare) or field in ("slice", "keys"):
            yield ast.Constant(f"{node.value}~")
        case str():
            yield from (ast.Constant(new) for new in clauses(node.value))


def _calls(node: ast.Call) -> Iterator[ast.expr]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in CALLED:
        yield ast.Call(ast.Name(CALLED[name], ast.Load()), node.args, node.keywords)
    starred = any(isinstance(one, ast.Starred) for one in node.args)
    if len(node.args) > 1 and not starred and name not in (*ORDERLESS, *CALLED):
        swapped = [node.args[1], node.args[0], *node.args[2:]]
        yield ast.Call(node.func, swapped, node.keywords)
    if name == "replace":
        for index in range(len(node.keywords)):
            changed = copy.copy(node)
            changed.keywords = _without(node.keywords, index)
            yield changed


def _has_an_opposite(node: ast.expr) -> bool:
    """Whether another change of it says the same as `not`."""
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1 and not isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _without(values: list[T], index: int) -> list[T]:
    return [*values[:index], *values[index + 1 :]]


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_false(node: ast.expr) -> bool:
    """Who asks only whether it holds cannot tell it from None; another change makes it true."""
    return isinstance(node, ast.Constant) and node.value is False


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
