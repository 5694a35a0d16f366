"""Finding a key again: the field behind a path, its environment variable, and what it may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ebbtide.config.pools import BY_NAME, INLINE
from ebbtide.config.schema import NESTED, SECTIONS, Document

Path = tuple[str | int, ...]


def path_text(path: Sequence[str | int]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def variable_of(path: Sequence[str | int]) -> str:
    return "_".join(str(part) for part in path).upper()


def leaf_fields() -> Iterator[tuple[Path, FieldInfo]]:
    """The keys that have a variable of their own, in the order of the documentation."""
    for _, section in SECTIONS:
        for key, field in section.model_fields.items():
            yield (key,), field
    for name, section in NESTED:
        for key, field in section.model_fields.items():
            yield (name, key), field
    for name in ("budgets", "headroom", "pools", "policies"):
        yield (name,), Document.model_fields[name]


def clean_path(loc: Sequence[str | int]) -> Path:
    return tuple(part for part in loc if part not in (BY_NAME, INLINE))


def model_at(path: Path) -> type[BaseModel] | None:
    """The model whose keys are found at a path, as far as there is one."""
    found: type[BaseModel] | None = Document
    for part in path:
        if isinstance(part, int):
            continue
        field = found.model_fields.get(part) if found else None
        found = model_in(field.annotation) if field else None
    return found


def field_at(path: Path) -> FieldInfo | None:
    names = tuple(part for part in path if isinstance(part, str))
    model = model_at(names[:-1]) if names else None
    return model.model_fields.get(names[-1]) if model else None


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The first model that an annotation speaks of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = (model_in(argument) for argument in get_args(annotation))
    return next((model for model in models if model), None)


def allowed(field: FieldInfo, name: str) -> str:
    """What a key may be, in words."""
    if isinstance(field.json_schema_extra, dict):
        return str(field.json_schema_extra["allowed"])
    kind = _plain(field.annotation)
    bounds = _bounds(field)
    if get_origin(kind) is Literal:
        *others, last = get_args(kind)
        return f"{', '.join(others)} or {last}" if others else str(last)
    if kind is bool:
        return "true or false"
    if kind is int and bounds:
        return f"a whole number{' of seconds' if name.endswith('_sec') else ''} {bounds}"
    if kind is float:
        return f"a number {bounds}"
    if get_origin(kind) is tuple:
        of_what = "numbers" if get_args(kind)[0] is int else "names"
        return "a list" if model_in(kind) else f"a list of {of_what}"
    if get_origin(kind) is dict:
        return "pairs of a key and a text"
    return "text"


def _plain(annotation: Any) -> Any:
    """Without `Annotated` and without the None of an optional key."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        rest = [argument for argument in get_args(annotation) if argument is not NoneType]
        return _plain(rest[0]) if len(rest) == 1 else annotation
    return annotation


def _bounds(field: FieldInfo) -> str:
    least = next((m.ge for m in field.metadata if isinstance(m, annotated_types.Ge)), None)
    most = next((m.le for m in field.metadata if isinstance(m, annotated_types.Le)), None)
    return f"from {least} to {most}" if least is not None and most is not None else ""
