"""Environment variables laid over what the file says. A variable is text, read as the kind of its key.

One that is empty counts as unset: unit files, templates and other programs leave such behind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic.fields import FieldInfo

from ebbtide.config.document import parse_document
from ebbtide.config.places import Path, allowed, leaf_fields, variable_of
from ebbtide.config.problems import Problem, shown
from ebbtide.errors import ConfigError


def with_environment(
    from_file: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[dict[str, Any], dict[Path, str], list[Problem]]:
    """The values of both, the variables that were set, and what is wrong with them."""
    values = dict(from_file)
    variables: dict[Path, str] = {}
    found: list[Problem] = []
    for path, field in leaf_fields():
        variable = variable_of(path)
        text = environ.get(variable, "").strip()
        if not text:
            continue
        variables[path] = variable
        try:
            _put(values, path, _read(text, field))
        except ValueError:
            _drop(values, path)
            found.append(
                Problem(path, f"{shown(text)} is not allowed; allowed: {allowed(field, str(path[-1]))}")
            )
    return values, variables, found


def _put(values: dict[str, Any], path: Path, value: Any) -> None:
    first, *rest = map(str, path)
    if not rest:
        values[first] = value
    elif isinstance(section := values.get(first, {}), dict):
        values[first] = {**section, rest[0]: value}


def _drop(values: dict[str, Any], path: Path) -> None:
    first, *rest = map(str, path)
    if not rest:
        values.pop(first, None)
    elif isinstance(section := values.get(first), dict):
        values[first] = {key: value for key, value in section.items() if key != rest[0]}


def _read(text: str, field: FieldInfo) -> Any:
    """Raises `ValueError` where the text is not of the key's kind."""
    kind: object = field.annotation
    if kind is int:
        return int(_matched(r"[-+]?\d+", text))
    if kind is float:
        return float(_matched(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", text))
    if kind is bool:
        return _matched("true|false", text.lower()) == "true"
    if kind == tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind == tuple[int, ...]:
        return tuple(int(_matched(r"\d+", part.strip())) for part in text.strip("[]").split(","))
    if kind is str or "Literal" in str(kind):
        return text
    return _read_yaml(text)


def _read_yaml(text: str) -> Any:
    indented = "\n".join(f"  {line}" for line in text.splitlines())
    try:
        return parse_document(f"value:\n{indented}", "").values["value"]
    except ConfigError as error:
        raise ValueError(str(error)) from error


def _matched(pattern: str, text: str) -> str:
    if re.fullmatch(pattern, text) is None:
        raise ValueError(f"{text!r} does not match {pattern}")
    return text
