"""What is wrong with a configuration, so a person can fix it: place, value, what is allowed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ebbtide.config.places import Path, allowed, clean_path, field_at, model_at
from ebbtide.config.schema import NESTED

_SECRET = re.compile(r"(://)[^/\s]*(@)")
_SECRET_PARAMETER = re.compile(r"(?i)((?:password|passwd|secret|token)=)[^&\s]+")
_LONGEST_VALUE = 60
_LONGEST_LIST = 12


@dataclass(frozen=True, slots=True)
class Problem:
    path: Path
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


def problems_in(error: ValidationError) -> list[Problem]:
    found = [_problem(detail) for detail in error.errors(include_url=False)]
    return [problem for problem in found if not _follows_from_another(problem, found)]


def _follows_from_another(problem: Problem, found: list[Problem]) -> bool:
    """A list whose entries are all wrong is not also "empty"."""
    length = len(problem.path)
    return any(len(p.path) > length and p.path[:length] == problem.path for p in found)


def _problem(detail: ErrorDetails) -> Problem:
    path = clean_path(detail["loc"])
    if detail["type"] == "extra_forbidden":
        return Problem(path, f"unknown key{_suggestion(path)}")
    if detail["type"] == "missing":
        return Problem(path, f"is missing; allowed: {_allowed(path)}")
    if detail["type"] == "too_short" or detail["input"] is None:
        return Problem(path, f"is empty; allowed: {_allowed(path)}")
    if detail["type"] == "value_error":
        return Problem(path, f"{shown(detail['input'])} is {detail['ctx']['error']}")
    return Problem(path, f"{shown(detail['input'])} is not allowed; allowed: {_allowed(path)}")


def _allowed(path: Path) -> str:
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


def _suggestion(path: Path) -> str:
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
