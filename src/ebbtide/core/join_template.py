"""Templates for the user data of a node: which values they may name, and how each may be quoted.

`{{ name }}` is the value as it is, `{{ name | sh }}` one word of shell, `{{ name | json }}` a string of JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

PLACE = re.compile(r"\{\{\s*([^{}|]*?)\s*(?:\|\s*([^{}|]*?)\s*)?\}\}")
NAMES = (
    "pool",
    "zone",
    "instance_type",
    "market",
    "labels",
    "taints",
    "server_url",
    "version",
    "provider_prefix",
    "read_instance_id",
    "token_command",
)
FILTERS = ("sh", "json")


def problems_with(template: str) -> Iterator[str]:
    """What in a template nobody could fill in."""
    for name, quoting in PLACE.findall(template):
        if name not in NAMES:
            yield f"{{{{ {name} }}}} is not known; known are {', '.join(NAMES)}"
        if quoting and quoting not in FILTERS:
            yield f"{{{{ {name} | {quoting} }}}} is not known; known are {' and '.join(FILTERS)}"
