"""A template of the user's own, for whatever no other kind fits: `{{ name }}` stands for a value.

`{{ name | sh }}` quotes it as one word of shell, `{{ name | json }}` as a string of JSON, which YAML reads,
too. Everything else stays to the letter, so a script needs no escaping.
"""

from __future__ import annotations

import json
import re
import shlex

from ebbtide.adapters.clouds.joins.machine import Join, Metadata, labels_of, taints_of
from ebbtide.core.join_template import PLACE
from ebbtide.model.operation import Slot
from ebbtide.model.pool import Pool


def custom_user_data(join: Join, metadata: Metadata, slot: Slot, pool: Pool) -> str:
    values = {
        "pool": slot.pool,
        "zone": slot.zone,
        "instance_type": slot.instance_type,
        "market": str(slot.market),
        "labels": ",".join(f"{key}={value}" for key, value in labels_of(slot, pool).items()),
        "taints": ",".join(taints_of(pool)),
        "server_url": join.server_url,
        "version": join.version,
        "provider_prefix": metadata.provider_prefix,
        "read_instance_id": metadata.read_instance_id,
        "token_command": metadata.token_command,
    }

    def fill(found: re.Match[str]) -> str:
        value = values[found[1]]
        match found[2]:
            case "sh":
                return shlex.quote(value)
            case "json":
                return json.dumps(value)
            case _:
                return value

    return PLACE.sub(fill, join.template)
