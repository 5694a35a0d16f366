"""One transaction of DynamoDB: conditional steps together with the log entries that tell of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ebbtide.adapters.stores.dynamodb_errors import ConditionFailed, translated


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
