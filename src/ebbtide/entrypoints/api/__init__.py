"""The HTTP API: what is going on and why, policies and wakes, savings, and the switch that pauses.

`make_app(site)` is the front. Nothing here is imported by the Lambda handler.
"""

from __future__ import annotations

from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.api.site import Site

__all__ = ["Site", "make_app"]
