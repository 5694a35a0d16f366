"""Which nodes to empty so that the cluster costs less: existing nodes with what they hold, a price for
moving, and new nodes where they are cheaper.

`scene` says what stands where and what may move; `draft` is one way to rearrange it; `sweep` makes many
drafts and keeps those that are cheaper for their number of moves.
"""

from __future__ import annotations

from ebbtide.core.repack.draft import Draft
from ebbtide.core.repack.scene import Offered, Scene, Site
from ebbtide.core.repack.sweep import Limits, sweep

__all__ = ["Draft", "Limits", "Offered", "Scene", "Site", "sweep"]
