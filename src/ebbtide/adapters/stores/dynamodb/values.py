"""One transaction of DynamoDB: conditional steps together with the log entries that tell of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.adapters.stores.dynamodb.errors import ConditionFailed, translated


def transact(client: Any, where: str, steps: Sequence[Any], puts: Sequence[Any]) -> None:
    """All or nothing. An entry that is there already stays as it is and does not stop the rest."""
    try:
        with translated(where):
            client.transact_write_items(TransactItems=[*steps, *({"Put": put} for put in puts)])
    except ConditionFailed as refused:
        if any(place < len(steps) for place in refused.at):
            raise
        there = {place - len(steps) for place in refused.at}
        transact(client, where, steps, [put for place, put in enumerate(puts) if place not in there])


Wire = dict[str, Any]


def to_wire(value: Any) -> Wire:
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}
        case dict():
            return {"M": {name: to_wire(part) for name, part in value.items()}}
        case list() | tuple():
            return {"L": [to_wire(part) for part in value]}
    raise TypeError(f"{type(value).__name__} has no place in a record")


def from_wire(wire: Mapping[str, Any]) -> Any:
    ((kind, value),) = wire.items()
    match kind:
        case "S" | "B" | "BOOL":
            return value
        case "N":
            return int(value) if value.lstrip("-").isdigit() else float(value)
        case "L":
            return [from_wire(part) for part in value]
        case "M":
            return from_wire_item(value)
        case "NULL":
            return None
        case "SS" | "BS":
            return list(value)
        case "NS":
            return [from_wire({"N": part}) for part in value]
    raise ValueError(f"an attribute of type {kind} is not understood")


def to_wire_item(item: Mapping[str, Any]) -> Wire:
    return {name: to_wire(value) for name, value in item.items()}


def from_wire_item(wire: Mapping[str, Any]) -> dict[str, Any]:
    return {name: from_wire(value) for name, value in wire.items()}
