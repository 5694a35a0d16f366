"""Reading the YAML file: plain YAML 1.2 scalars, no key twice, and the line of every key. Environment
variables are laid over what it says.

YAML 1.1 would read `no` as false, `010` as eight and `10:00` as six hundred. Here they stay text and are
refused where a number is expected. A variable is text, read as the kind of its key. One that is empty
counts as unset: unit files, templates and other programs leave such behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic.fields import FieldInfo

from ebbtide.config.problems import (
    ConfigProblem,
    KeyPath,
    allowed,
    leaf_fields,
    path_text,
    shown,
    variable_of,
)
from ebbtide.errors import ConfigError

CHECK = "Correct it and run `ebbtide config check`."
NOTHING = "tag:yaml.org,2002:null"
_FIRST = "-+.0123456789tTfFnN~"


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _pattern in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$"),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$"),
    ("float", r"^[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)$"),
    ("null", r"^(?:~|null|Null|NULL|)$"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), [*_FIRST, ""])


@dataclass(frozen=True, slots=True)
class Read:
    """What a file holds, and on which line each key stands."""

    name: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    lines: Mapping[KeyPath, int] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int:
        """The line of a key, or of the nearest thing around it; 0 where there is none."""
        around = (path[:length] for length in range(len(path), 0, -1))
        return next((self.lines[here] for here in around if here in self.lines), 0)

    def place(self, path: KeyPath) -> str:
        line = self.line(path)
        return f"{self.name} line {line}" if line else self.name


def read_document(path: Path) -> Read:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"the configuration file {path} cannot be read ({error.strerror}); nothing was touched. "
            "Give the path of a readable file with --config, or leave it out to use the defaults."
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"the configuration file {path} is not text in UTF-8; nothing was touched. "
            "Write it as plain text."
        ) from error
    return parse_document(text, str(path))


def parse_document(text: str, name: str, example: str = "min_workers: 2", hint: str = CHECK) -> Read:
    """One document of keys and values, such as `example`; `hint` says what to do about a wrong one."""
    with _reading(text, name, hint) as loader:
        root = loader.get_single_node()
        return Read(name) if root is None else _read(loader, root, name, example, hint)


def parse_documents(text: str, name: str, hint: str) -> tuple[Read, ...]:
    """Every document of a file that may hold several; empty ones are skipped."""
    found = []
    with _reading(text, name, hint) as loader:
        while loader.check_node():
            root = loader.get_node()
            if root is not None and root.tag != NOTHING:
                found.append(_read(loader, root, name, "name: web", hint))
    return tuple(found)


@contextmanager
def _reading(text: str, name: str, hint: str) -> Iterator[_Loader]:
    """Turns what is wrong with the text into a sentence that says where."""
    try:
        loader = _Loader(text)
        try:
            yield loader
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{name}{_mark(error)} is not valid YAML: {_problem(error)}; nothing was touched. {hint}"
        ) from error


def _read(loader: _Loader, root: yaml.Node, name: str, example: str, hint: str) -> Read:
    lines: dict[KeyPath, int] = {(): root.start_mark.line + 1}
    _walk(root, (), lines, name)
    values = _frozen(loader.construct_document(root))
    if not isinstance(values, dict):
        raise ConfigError(
            f"{name} must hold keys with values, such as `{example}`; nothing was touched. {hint}"
        )
    return Read(name, values, lines)


def _walk(node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int], name: str) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
            line = key.start_mark.line + 1
            if here in lines:
                raise ConfigError(
                    f"{name} line {line}, {path_text(here)}: the key stands twice (first on line "
                    f"{lines[here]}); nothing was touched. Remove one of them."
                )
            lines[here] = line
            _walk(value, here, lines, name)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            here = (*path, number)
            lines[here] = value.start_mark.line + 1
            _walk(value, here, lines, name)


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {str(key): _frozen(item) for key, item in value.items()}
    return value


def _mark(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f" line {mark.line + 1}, column {mark.column + 1}," if mark else ""


def _problem(error: Exception) -> str:
    return str(getattr(error, "problem", None) or str(error).splitlines()[0])


def with_environment(
    from_file: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[dict[str, Any], dict[KeyPath, str], list[ConfigProblem]]:
    """The values of both, the variables that were set, and what is wrong with them."""
    values = dict(from_file)
    variables: dict[KeyPath, str] = {}
    found: list[ConfigProblem] = []
    for path, key in leaf_fields():
        variable = variable_of(path)
        text = environ.get(variable, "").strip()
        if not text:
            continue
        variables[path] = variable
        try:
            _put(values, path, _read_variable(text, key))
        except ValueError:
            _drop(values, path)
            found.append(
                ConfigProblem(path, f"{shown(text)} is not allowed; allowed: {allowed(key, str(path[-1]))}")
            )
    return values, variables, found


def _put(values: dict[str, Any], path: KeyPath, value: Any) -> None:
    first, *rest = map(str, path)
    if not rest:
        values[first] = value
    elif isinstance(section := values.get(first, {}), dict):
        values[first] = {**section, rest[0]: value}


def _drop(values: dict[str, Any], path: KeyPath) -> None:
    first, *rest = map(str, path)
    if not rest:
        values.pop(first, None)
    elif isinstance(section := values.get(first), dict):
        values[first] = {key: value for key, value in section.items() if key != rest[0]}


def _read_variable(text: str, field: FieldInfo) -> Any:
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
