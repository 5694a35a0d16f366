"""A hash of all that a new node of a pool is launched with, to find nodes that were launched otherwise.

What is left at its default is not in it, so a new version with another default makes no node drift. Where a
node is put (zone, subnet, placement group) and what it costs say nothing about what it is.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ebbtide.config.adapters import AdapterSections
from ebbtide.model.pool import Pool

LENGTH = 16
AWS = {"image", "launch_template", "security_groups", "instance_profile", "key_name"}
HETZNER = {"image", "networks", "ssh_keys", "firewalls", "public_ipv4"}


def launch_hash(pool: Pool, sections: AdapterSections) -> str:
    parts: dict[str, Any] = {
        "labels": pool.labels,
        "taints": [[taint.key, taint.value, taint.effect] for taint in pool.taints],
        "join": sections.join.model_dump(mode="json", exclude_defaults=True),
    }
    if sections.cloud.kind != "hetzner":
        parts["aws"] = sections.aws.model_dump(mode="json", include=AWS, exclude_defaults=True)
    if sections.cloud.kind != "aws":
        parts["hetzner"] = sections.hetzner.model_dump(mode="json", include=HETZNER, exclude_defaults=True)
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]
