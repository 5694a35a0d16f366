"""Kinds of values that the keys of a story share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from ebbtide.config.section import AMOUNT, read_cpu_milli, read_memory_mib

NODE_NAME = r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$"
WORKLOAD_NAME = r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$"
NAME_ALLOWED = "lower-case letters, digits, - and ., 63 at most"
LONGEST_SECONDS = 10 * 366 * 86_400.0

Seconds = Annotated[
    float,
    Field(
        ge=0,
        le=LONGEST_SECONDS,
        allow_inf_nan=False,
        json_schema_extra={"allowed": f"a number of seconds from 0 to {LONGEST_SECONDS:.0f}"},
    ),
]


def ordered(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] > value[1]:
        raise ValueError("a span whose low end is above its high end; allowed: [low, high]")
    return value


def _text(value: Any) -> Any:
    """YAML reads 20 as a number and true as a truth; labels and annotations hold text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _cpu(value: Any) -> int:
    return 0 if value in (0, "0") and not isinstance(value, bool) else read_cpu_milli(value)


def _memory(value: Any) -> int:
    return 0 if value in (0, "0") and not isinstance(value, bool) else read_memory_mib(value)


Text = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": ["string", "number", "boolean"]})]
TextMap = Annotated[dict[str, Text], Field(json_schema_extra={"allowed": "pairs of a key and a text"})]
CpuMilli = Annotated[
    int, BeforeValidator(_cpu), AMOUNT, Field(json_schema_extra={"allowed": "4, 3.5 or 3500m"})
]
MemoryMib = Annotated[
    int, BeforeValidator(_memory), AMOUNT, Field(json_schema_extra={"allowed": "8Gi, 7600Mi or 8GB"})
]
