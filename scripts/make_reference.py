"""The reference pages that are made from the code: commands, API routes, metrics, log entries, story keys.

make reference        writes docs/reference/*.md; a test fails where they are not those of the code
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
from collections.abc import Iterator, Mapping
from enum import EnumType
from itertools import pairwise
from pathlib import Path
from typing import Any

from ebbtide.adapters.metrics_export.metrics import MetricsRegistry
from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.cli.demo_page import demo_site
from ebbtide.model import events, log
from ebbtide.model.log import LogKind
from ebbtide.simulator.run.live import Live
from scripts.cli_reference import cli_page
from scripts.story_reference import stories_page

FACTS_SAY = (
    "Each entry has an `id`, the time `at` (seconds since the epoch), its `kind`, a `subject`, a sentence\n"
    "for people (`says`), and `data` with the fields below. Programs read `data`; sentences may change.\n"
    "A field without a value is left out. Entries that an older version logged can have no data:\n"
    "their sentence is shown, and `ebbtide report` says how many it did not count."
)
MADE = "Made from the code by `make reference`; do not edit.\n"


def pages() -> dict[str, str]:
    return {
        "api.md": api_page(document()),
        "cli.md": cli_page(MADE),
        "metrics.md": metrics_page(),
        "log.md": log_page(),
        "stories.md": stories_page(MADE),
    }


def document() -> dict[str, Any]:
    """With everything that can be served: policies, metrics and the demo."""
    site = demo_site(Live(1, 0.0), "none", 1.0)
    found: dict[str, Any] = make_app(site).openapi()
    return found


def api_page(api: Mapping[str, Any]) -> str:
    lines = [
        "# API",
        "",
        MADE,
        "The same as an OpenAPI document is served at `/api/v1/openapi.json`. A token is sent as",
        "`Authorization: Bearer ...`; its scope is `read`, `wake` or `admin`, each with all that the one",
        "before it may. Errors are `application/problem+json` with `title`, `status`, `detail` and, for bad",
        "input, `errors`. Times are seconds since the epoch, money is a decimal in a string. `/metrics` is",
        "there too in a process that exports metrics ([metrics.md](metrics.md)), and needs `read`.",
        "",
        "| route | scope | what it does | answer |",
        "| --- | --- | --- | --- |",
    ]
    shapes: dict[str, None] = {}
    for path, methods in api["paths"].items():
        for method, route in methods.items():
            asked, answer = _shape_of(route.get("requestBody")), _answer(route["responses"])
            shapes.update(dict.fromkeys(name for name in (asked, answer) if name))
            says = " ".join(route.get("description", route["summary"]).split())
            takes = f" Takes {_link(asked)}." if asked else ""
            name = f"`{method.upper()} {path}`"
            lines.append(f"| {name} | {route['x-scope']} | {says}{takes} | {_link(answer)} |")
    lines += ["", "## Fields"]
    for name in sorted(_with_parts(shapes, api["components"]["schemas"])):
        lines += ["", f"### {name}", "", *_fields(api["components"]["schemas"][name])]
    return "\n".join(lines) + "\n"


def _answer(responses: Mapping[str, Any]) -> str:
    return next((_shape_of(part) for code, part in responses.items() if code.startswith("2")), "")


def _shape_of(part: Mapping[str, Any] | None) -> str:
    content = (part or {}).get("content", {}).get("application/json", {})
    return next(_names_in(content.get("schema", {})), "")


def _names_in(schema: object) -> Iterator[str]:
    """All shapes that a schema refers to."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield str(schema["$ref"]).rpartition("/")[2]
        for part in schema.values():
            yield from _names_in(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _names_in(part)


def _with_parts(names: Mapping[str, None], schemas: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += _names_in(schemas[name])
    return found


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})" if name else ""


def _fields(schema: Mapping[str, Any]) -> list[str]:
    if "enum" in schema:
        return ["One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + "."]
    required = set(schema.get("required", ()))
    lines = ["| field | type | always there | what it is |", "| --- | --- | --- | --- |"]
    for name, field in schema.get("properties", {}).items():
        says = " ".join(field.get("description", "").split()).replace("|", "\\|")
        lines.append(f"| `{name}` | {_type(field)} | {'yes' if name in required else 'no'} | {says} |")
    return lines


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return _link(str(field["$ref"]).rpartition("/")[2])
    for choice in ("anyOf", "allOf", "oneOf"):
        if choice in field:
            return " or ".join(_type(part) for part in field[choice])
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    return str(field.get("type", "any"))


def metrics_page() -> str:
    lines = [
        "# Metrics for Prometheus",
        "",
        MADE,
        "| metric | kind | what it is |",
        "| --- | --- | --- |",
    ]
    for family in sorted(MetricsRegistry().registry.collect(), key=lambda family: family.name):
        if family.name.startswith("process_"):
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        lines.append(f"| `{name}` | {family.type} | {family.documentation} |")
    lines += ["", "Also exported are the usual `process_*` metrics of the process itself."]
    return "\n".join(lines) + "\n"


def log_page() -> str:
    """Each kind with the sentence under it in the code."""
    lines = [
        "# Entries of the log",
        "",
        MADE,
        "`ebbtide log --kind KIND` shows them, `GET /api/v1/log` serves them.",
        "",
    ]
    lines += ["| kind | what it says |", "| --- | --- |"]
    says = _member_docs(inspect.getsource(log), LogKind.__name__)
    lines += [f"| [`{kind.value}`](#{_anchor(kind)}) | {says[kind.name]} |" for kind in LogKind]
    lines += ["", FACTS_SAY]
    source = inspect.getsource(events)
    for kind in LogKind:
        lines += ["", f"## {kind.value}"]
        for fact in events.FACTS[kind]:
            docs = _field_docs(source, [base.__name__ for base in fact.__mro__])
            lines += ["", "| field | type | what it is |", "| --- | --- | --- |"]
            lines += [
                f"| `{field.name}` | {_type_name(field.type)} | {docs.get(field.name, '')} |"
                for field in dataclasses.fields(fact)
            ]
    return "\n".join(lines) + "\n"


def _anchor(kind: LogKind) -> str:
    return kind.value.replace(".", "")


def _type_name(annotation: object) -> str:
    """As a reader of JSON knows it; the values of an enumeration are listed."""
    text = str(annotation).removesuffix(" | None")
    found = getattr(events, text, None)
    if isinstance(found, EnumType):
        values: list[Any] = list(found)
        return ", ".join(f"`{one.value}`" for one in values if one.value)
    if text == "tuple[Kept, ...]":
        return "list of `name` and `reason`"
    known = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false"}
    known |= {"tuple[str, ...]": "list of text", "dict[str, str]": "map"}
    return known.get(text, text)


def _field_docs(source: str, class_names: list[str]) -> dict[str, str]:
    """The sentences under the fields of a fact, and of what it is made from."""
    found: dict[str, str] = {}
    for body in (node.body for node in ast.parse(source).body if getattr(node, "name", "") in class_names):  # type: ignore[attr-defined]
        for member, after in pairwise(body):
            if isinstance(member, ast.AnnAssign) and isinstance(after, ast.Expr):
                target, text = member.target, after.value
                if isinstance(target, ast.Name) and isinstance(text, ast.Constant):
                    found[target.id] = " ".join(str(text.value).split())
    return found


def _member_docs(source: str, class_name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    (body,) = (node.body for node in ast.parse(source).body if getattr(node, "name", "") == class_name)  # type: ignore[attr-defined]
    for member, after in pairwise(body):
        if isinstance(member, ast.Assign) and isinstance(after, ast.Expr):
            target, text = member.targets[0], after.value
            if isinstance(target, ast.Name) and isinstance(text, ast.Constant):
                found[target.id] = " ".join(str(text.value).split())
    return found


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/reference")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
