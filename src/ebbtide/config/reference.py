"""The table of all keys for `docs/configuration.md`, made from the keys themselves.

`python -m ebbtide.config.reference docs/configuration.md` writes it again between its two marks.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ebbtide.config.api import TokenKeys
from ebbtide.config.nodes import BudgetKeys, HeadroomKeys, WindowKeys
from ebbtide.config.policies import (
    PolicyKeys,
    RuleKeys,
    ScheduleKeys,
    SignalKeys,
    TargetKeys,
    WorkloadKeys,
)
from ebbtide.config.pools import LimitKeys, PoolKeys, TaintKeys, TypeKeys
from ebbtide.config.problems import allowed, variable_of
from ebbtide.config.scale_to_zero import HttpKeys, NeverWakeKeys, PolicyGateKeys, ServiceKeys, WakeHeaderKeys
from ebbtide.config.schema import NESTED, SECTIONS
from ebbtide.core.prices import CATALOGUE

BEGIN = "<!-- keys: begin (made by python -m ebbtide.config.reference) -->"
END = "<!-- keys: end -->"


def reference() -> str:
    parts = [_section(title, "", model) for title, model in SECTIONS]
    parts += [_section(f"`{name}`", name, model) for name, model in NESTED]
    parts.append(_entries("A token, in `api.tokens`", TokenKeys))
    parts.append(_entries("`pools`: each entry", PoolKeys))
    parts.append(_entries("A type defined inline, in `pools[].types`", TypeKeys))
    parts.append(_entries("Limits, in `pools[].limits`", LimitKeys))
    parts.append(_entries("A taint, in `pools[].taints`", TaintKeys))
    parts.append(_entries("`headroom`: each entry", HeadroomKeys))
    parts.append(_entries("A window, in `headroom[].schedule`", WindowKeys))
    parts.append(_entries("`policies`: each entry", PolicyKeys))
    parts.append(_entries("A target, in `policies[].target`", TargetKeys))
    parts.append(_entries("A workload, in `policies[].target.workloads`", WorkloadKeys))
    parts.append(_entries("A signal, in `policies[].signals`", SignalKeys))
    parts.append(_entries("A rule, in `policies[].rules`", RuleKeys))
    parts.append(_entries("A schedule, in `policies[].schedules`", ScheduleKeys))
    parts.append(_entries("A gate, in `policies[].gate`", PolicyGateKeys))
    parts.append(_entries("A Service, in `policies[].gate.services`", ServiceKeys))
    parts.append(_entries("HTTP, in `policies[].gate.http`", HttpKeys))
    parts.append(_entries("What never wakes, in `policies[].gate.http.never_wake`", NeverWakeKeys))
    parts.append(_entries("The header that wakes, in `policies[].gate.http.wake_header`", WakeHeaderKeys))
    parts.append(_entries("A budget, in `budgets` and `pools[].budgets`", BudgetKeys))
    parts.append(_catalogue())
    return "\n\n".join(parts)


def _section(title: str, prefix: str, model: type[BaseModel]) -> str:
    rows = ["| key | variable | default | allowed | what it does |", "| --- | --- | --- | --- | --- |"]
    for key, field in model.model_fields.items():
        path = (prefix, key) if prefix else (key,)
        rows.append(
            f"| `{'.'.join(path)}` | `{variable_of(path)}` | {_default(field)} | {allowed(field, key)} "
            f"| {field.description} |"
        )
    return f"### {title}\n\n" + "\n".join(rows)


def _entries(title: str, model: type[BaseModel]) -> str:
    rows = ["| key | default | allowed | what it does |", "| --- | --- | --- | --- |"]
    for key, field in model.model_fields.items():
        rows.append(f"| `{key}` | {_default(field)} | {allowed(field, key)} | {field.description} |")
    return f"### {title}\n\n" + "\n".join(rows)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: Any = field.default
    if isinstance(value, BaseModel):
        return "its defaults"
    if isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        return ", ".join(f"`{each.model_dump(mode='json', exclude_defaults=True)}`" for each in value)
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple) and value:
        return ", ".join(f"`{each}`" for each in value)
    text = str(value).replace("|", "\\|")
    return f"`{text}`" if value or value == 0 else "none"


def _catalogue() -> str:
    rows = ["| name | CPU | memory | price per hour | as of |", "| --- | --- | --- | --- | --- |"]
    for node_type in CATALOGUE.values():
        offer, price = node_type.allocatable, node_type.price
        cost = f"{price.per_hour} {price.currency}" if price else "unknown"
        cpus, as_of = f"{offer.cpu_milli / 1000:g}", price.as_of if price else ""
        rows.append(f"| `{node_type.name}` | {cpus} | {offer.memory_mib} Mi | {cost} | {as_of} |")
    return "### Built-in types\n\nEC2 prices are those of us-east-1.\n\n" + "\n".join(rows)


def with_reference(text: str) -> str:
    """The page with its table made again."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{reference()}\n\n{END}{tail}"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_reference(page.read_text(encoding="utf-8")), encoding="utf-8")
