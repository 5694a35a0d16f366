"""What is wrong with a configuration, so a person can fix it: place, value, what is allowed. A place is
found again by its path: the field behind it, its environment variable, and what it may be.

Keys that `ebbtide init` could not know and a person has not filled in yet are not wrong: the file is
valid with them, so it can be checked and looked at. What acts refuses it: a launch with such a value
would only fail later, in the cloud.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from ebbtide.config.pools import BY_NAME, INLINE
from ebbtide.config.schema import NESTED, SECTIONS, Document
from ebbtide.errors import ConfigError

if TYPE_CHECKING:
    from ebbtide.config.load import Config

_SECRET = re.compile(r"(://)[^/\s]*(@)")
_SECRET_PARAMETER = re.compile(r"(?i)((?:password|passwd|secret|token)=)[^&\s]+")
_LONGEST_VALUE = 60
_LONGEST_LIST = 12
KeyPath = tuple[str | int, ...]
FILL_IN = "fill-me-in"


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    path: KeyPath
    says: str
    others: tuple[str, ...] = ()
    """The other keys whose values it depends on."""


def mask(text: str) -> str:
    """Without whatever in a URL could be a password."""
    return _SECRET_PARAMETER.sub(r"\1***", _SECRET.sub(r"\1***\2", text))


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = mask(f'"{value}"' if isinstance(value, str) else str(value))
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."


def problems_in(error: ValidationError) -> list[ConfigProblem]:
    found = [_problem(detail) for detail in error.errors(include_url=False)]
    return [problem for problem in found if not _follows_from_another(problem, found)]


def _follows_from_another(problem: ConfigProblem, found: list[ConfigProblem]) -> bool:
    """A list whose entries are all wrong is not also "empty"."""
    length = len(problem.path)
    return any(len(p.path) > length and p.path[:length] == problem.path for p in found)


def _problem(detail: ErrorDetails) -> ConfigProblem:
    path = clean_path(detail["loc"])
    if detail["type"] == "extra_forbidden":
        return ConfigProblem(path, f"unknown key{_suggestion(path)}")
    if detail["type"] == "missing":
        return ConfigProblem(path, f"is missing; allowed: {_allowed(path)}")
    if detail["type"] == "too_short" or detail["input"] is None:
        return ConfigProblem(path, f"is empty; allowed: {_allowed(path)}")
    if detail["type"] == "value_error":
        return ConfigProblem(path, f"{shown(detail['input'])} is {detail['ctx']['error']}")
    return ConfigProblem(path, f"{shown(detail['input'])} is not allowed; allowed: {_allowed(path)}")


def _allowed(path: KeyPath) -> str:
    name = path[-1] if path else ""
    field = field_at(path)
    model = model_at(path)
    if model and (isinstance(name, int) or path in [(section,) for section, _ in NESTED]):
        names = [part for part in path if isinstance(part, str)]
        either = "a built-in name, or " if names[-1] == "types" else ""
        return f"{either}the keys {', '.join(model.model_fields)}"
    if field is None or isinstance(name, int):
        return "text"
    return allowed(field, name)


def _suggestion(path: KeyPath) -> str:
    model = model_at(path[:-1])
    known = list(model.model_fields) if model else []
    wrong = str(path[-1]).lower()
    near = get_close_matches(wrong, known, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]}?"
    for section, inside in NESTED:
        if wrong in inside.model_fields:
            return f"; did you mean {section}.{wrong}?"
    if len(known) > _LONGEST_LIST:
        return "; `ebbtide config show` lists all keys"
    return f"; known here: {', '.join(known)}"


def path_text(path: Sequence[str | int]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def variable_of(path: Sequence[str | int]) -> str:
    return "_".join(str(part) for part in path).upper()


def leaf_fields() -> Iterator[tuple[KeyPath, FieldInfo]]:
    """The keys that have a variable of their own, in the order of the documentation."""
    for _, section in SECTIONS:
        for key, field in section.model_fields.items():
            yield (key,), field
    for name, section in NESTED:
        for key, field in section.model_fields.items():
            yield (name, key), field
    for name in ("budgets", "headroom", "pools", "policies"):
        yield (name,), Document.model_fields[name]


def clean_path(loc: Sequence[str | int]) -> KeyPath:
    return tuple(part for part in loc if part not in (BY_NAME, INLINE))


def model_at(path: KeyPath) -> type[BaseModel] | None:
    """The model whose keys are found at a path, as far as there is one."""
    found: type[BaseModel] | None = Document
    for part in path:
        if isinstance(part, int):
            continue
        field = found.model_fields.get(part) if found else None
        found = model_in(field.annotation) if field else None
    return found


def field_at(path: KeyPath) -> FieldInfo | None:
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


def unfilled(config: Config) -> tuple[str, ...]:
    return tuple(key.key for key in config.effective if FILL_IN in str(key.value))


def refuse_unfilled(config: Config) -> None:
    keys = unfilled(config)
    if keys:
        are = "is" if len(keys) == 1 else "are"
        raise ConfigError(
            f"{', '.join(keys)} {are} still to be filled in ({config.source or 'the environment'} says "
            f"{FILL_IN}); nothing was touched. Set it, then run `ebbtide doctor`."
        )
