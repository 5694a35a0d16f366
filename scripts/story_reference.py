"""The reference page of story files, from the shapes that the parser reads."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ebbtide.config.problems import allowed, model_in
from ebbtide.simulator.story.event_schemas import FORMS, CapacityKeys, EndKeys, EventKeys
from ebbtide.simulator.story.schemas import (
    CloudKeys,
    DemandKeys,
    NodeKeys,
    PdbKeys,
    StoryKeys,
    TolerationKeys,
    WorkloadKeys,
)

PARTS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The file", StoryKeys),
    ("`cloud`", CloudKeys),
    ("`nodes`", NodeKeys),
    ("`workloads`", WorkloadKeys),
    ("`pdb` and `more_pdbs` of a workload", PdbKeys),
    ("`tolerations` of a workload", TolerationKeys),
    ("`demand` and `requests` of a workload", DemandKeys),
    ("`events`: `at` and exactly one of the others", EventKeys),
    ("`capacity` of an event", CapacityKeys),
    *((f"`expect` with `{name}`", form) for name, form in FORMS.items()),
    ("`at_end` of an expectation", EndKeys),
)


def stories_page(made: str) -> str:
    lines = [
        "# Story files: every key",
        "",
        made,
        "What a story is, with examples: [stories.md](../stories.md).",
    ]
    for title, model in PARTS:
        lines += [
            "",
            f"## {title}",
            "",
            "| key | may be | default | what it is |",
            "| --- | --- | --- | --- |",
        ]
        lines += [_row(key, field) for key, field in model.model_fields.items()]
    return "\n".join([*lines, ""])


def _row(key: str, field: FieldInfo) -> str:
    cells = (f"`{key}`", _may_be(key, field), _default(field), str(field.description))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _may_be(key: str, field: FieldInfo) -> str:
    inside = model_in(field.annotation)
    if inside is not None and not field.json_schema_extra:
        return "a list, see below" if "tuple" in str(field.annotation) else "keys, see below"
    return allowed(field, key)


def _default(field: FieldInfo) -> str:
    value: Any = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "must be given"
    if value is None or value in ("", (), {}) or isinstance(value, BaseModel):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(f'{one:g}' for one in value)}]`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
