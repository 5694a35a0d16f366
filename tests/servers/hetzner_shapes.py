"""What the Hetzner Cloud API writes, as far as the tests need it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

LOCATIONS = ("fsn1", "nbg1", "hel1")
TYPES = {"cpx22": (2, 4, "0.0096"), "cpx32": (4, 8, "0.0168"), "cpx42": (8, 16, "0.0312")}


def private_net(address: str) -> dict[str, Any]:
    return {"network": 1, "ip": address, "alias_ips": [], "mac_address": "86:00:ff:2a:7d:e1"}


def type_json(name: str, number: int) -> dict[str, Any]:
    cores, memory, price = TYPES[name]
    prices = [
        {
            "location": location,
            "price_hourly": {"net": price, "gross": price},
            "price_monthly": {"net": "0", "gross": "0"},
        }
        for location in LOCATIONS
    ]
    return {"id": number, "name": name, "cores": cores, "memory": memory, "disk": 80, "prices": prices}


def action(command: str, number: int) -> dict[str, Any]:
    return {
        "id": number * 10,
        "command": command,
        "status": "running",
        "progress": 0,
        "started": datetime.now(UTC).isoformat(),
        "finished": None,
        "resources": [{"id": number, "type": "server"}],
        "error": None,
    }


def page(number: int, total: int, size: int) -> dict[str, Any]:
    last = max(1, -(-total // size))
    return {
        "pagination": {
            "page": number,
            "per_page": size,
            "previous_page": number - 1 or None,
            "next_page": number + 1 if number < last else None,
            "last_page": last,
            "total_entries": total,
        }
    }
