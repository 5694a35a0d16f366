"""The part of Helm's template language that the chart uses, for machines without Helm.

Whole lines: `if`, `with`, `range`, `end`, `toYaml X | nindent N`. Inside a line: `{{ .Path }}`, also with
`default`, and `toYaml X | sha256sum`. Anything else is an error: the chart cannot outgrow its test unseen.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import yaml

CONTROL = re.compile(r"^\s*\{\{- (if|with|range|end)\b\s*(.*?)\s*\}\}\s*$")
BLOCK = re.compile(r"^\s*\{\{- toYaml (\S+) \| nindent (\d+) \}\}\s*$")
INLINE = re.compile(r"\{\{ (.*?) \}\}")


def render_chart(chart: Path, values: dict[str, Any] | None = None, release: str = "ebbtide") -> list[Any]:
    """Every object of the chart, released into a namespace of the same name."""
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    merged = {**yaml.safe_load((chart / "values.yaml").read_text()), **(values or {})}
    scope = {
        "Values": merged,
        "Release": {"Name": release, "Namespace": release},
        "Chart": {"AppVersion": about["appVersion"]},
    }
    found = []
    for template in sorted((chart / "templates").glob("*.yaml")):
        lines = template.read_text().splitlines()
        text = "\n".join(_render(lines, scope, scope))
        found += [document for document in yaml.safe_load_all(text) if document]
    return found


def _render(lines: list[str], scope: Any, dot: Any) -> list[str]:
    out: list[str] = []
    number = 0
    while number < len(lines):
        control, block = CONTROL.match(lines[number]), BLOCK.match(lines[number])
        if control:
            end = _end_of(lines, number)
            inner, value = lines[number + 1 : end], _look(control[2], scope, dot)
            if control[1] == "range":
                for item in value:
                    out += _render(inner, scope, item)
            elif value:
                out += _render(inner, scope, value if control[1] == "with" else dot)
            number = end
        elif block:
            text = yaml.safe_dump(_look(block[1], scope, dot), sort_keys=True).rstrip()
            out += [" " * int(block[2]) + line for line in text.splitlines()]
        else:
            out.append(INLINE.sub(lambda found: str(_inline(found[1], scope, dot)), lines[number]))
        number += 1
    assert not any("{{" in line for line in out)
    return out


def _end_of(lines: list[str], start: int) -> int:
    depth = 0
    for number in range(start, len(lines)):
        found = CONTROL.match(lines[number])
        if found:
            depth += -1 if found[1] == "end" else 1
        if depth == 0:
            return number
    raise AssertionError(f"no end for {lines[start]}")


def _inline(expression: str, scope: Any, dot: Any) -> Any:
    if expression.endswith(" | sha256sum"):
        value = _look(expression.removeprefix("toYaml ").removesuffix(" | sha256sum"), scope, dot)
        return hashlib.sha256(yaml.safe_dump(value).encode()).hexdigest()
    first, _, second = expression.partition(" | default ")
    found = _look(first, scope, dot)
    return found or _look(second, scope, dot) if second else found


def _look(path: str, scope: Any, dot: Any) -> Any:
    if path == ".":
        return dot
    if not re.fullmatch(r"(\.\w+)+", path):
        raise AssertionError(f"the chart says {path!r}, which this test does not understand")
    found = scope
    for key in path.strip(".").split("."):
        found = found[key]
    return found
