"""Open the store that a URL names, on the machine's clock."""

from __future__ import annotations

from ebbtide.bootstrap import SystemClock
from ebbtide.ports import Store


def open_store(url: str, cluster: str = "cluster") -> Store:
    if url.startswith("dynamodb"):
        from ebbtide.adapters.stores.dynamodb.store import DynamoStore

        return DynamoStore.open(url, SystemClock(), cluster)
    from ebbtide.adapters.stores.sql.store import SqlStore

    return SqlStore.open(url, SystemClock(), cluster)
