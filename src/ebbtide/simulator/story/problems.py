"""What is wrong with the shape of a story, said with the value and what is allowed."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from ebbtide.config.problems import KeyPath, Problem, allowed, model_in, shown
from ebbtide.simulator.story.expect_schemas import FORMS, TAGS
from ebbtide.simulator.story.schemas import StoryKeys

UNIONS = ("float", "int", "constrained-float", "constrained-int", "none")
"""Marks that a choice between types leaves in the place of a problem."""


def problems_in(error: ValidationError) -> list[Problem]:
    found: dict[KeyPath, Problem] = {}
    for detail in error.errors(include_url=False):
        problem = _problem(detail)
        found.setdefault(problem.path, problem)
    return list(found.values())


def _problem(detail: ErrorDetails) -> Problem:
    location = tuple(part for part in detail["loc"] if part not in UNIONS)
    path = tuple(part for part in location if part not in TAGS)
    kind, value = detail["type"], detail["input"]
    value = list(value) if isinstance(value, tuple) else value
    if kind == "extra_forbidden":
        return Problem(path, f"unknown key{_known(location[:-1], str(path[-1]))}")
    if kind == "missing":
        return Problem(path, f"is missing{_allowed(location)}")
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return Problem(path, f"is no expectation; it needs one of the keys {', '.join(FORMS)}")
    if kind == "value_error":
        says = str(detail["ctx"]["error"])
        whole = isinstance(value, dict | BaseModel)
        return Problem(path, says if whole else f"{shown(value)} is {says}")
    if value is None:
        return Problem(path, f"is empty{_allowed(location)}")
    return Problem(path, f"{shown(value)} is not allowed{_allowed(location) or '; ' + detail['msg']}")


def _known(location: tuple[str | int, ...], wrong: str) -> str:
    model, _ = _at(location)
    known = list(model.model_fields) if model is not None else []
    near = get_close_matches(wrong.lower(), known, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{hint}; allowed: {', '.join(known)}" if known else hint


def _allowed(location: tuple[str | int, ...]) -> str:
    model, field = _at(location)
    if field is not None and (isinstance(location[-1], str) or model is None):
        return f"; allowed: {_words(field, location)}"
    return f"; allowed: the keys {', '.join(model.model_fields)}" if model is not None else ""


def _words(field: FieldInfo, location: tuple[str | int, ...]) -> str:
    inside = model_in(field.annotation)
    if inside is not None and not field.json_schema_extra:
        many = "a list of entries with " if "tuple" in str(field.annotation) else ""
        return f"{many}the keys {', '.join(inside.model_fields)}"
    name = next((part for part in reversed(location) if isinstance(part, str)), "")
    return allowed(field, name)


def _at(location: tuple[str | int, ...]) -> tuple[type[BaseModel] | None, FieldInfo | None]:
    """The model whose keys are found at a place, and the last field on the way there."""
    model: type[BaseModel] | None = StoryKeys
    field: FieldInfo | None = None
    for part in location:
        if part in TAGS:
            model = TAGS[str(part)]
        elif isinstance(part, str) and model is not None:
            found: Any = model.model_fields.get(part)
            field = found or field
            model = model_in(found.annotation) if found is not None else None
    return model, field
