"""One scene as a job for a process of its own, which imports what it needs by name."""

from __future__ import annotations

from tests.explorer.scenes import SCENES
from tests.explorer.search import Explored, explore

Job = tuple[str, bool, int]
"""Name of the scene, whether deep, and after how many states to stop."""


def run(job: Job) -> Explored:
    name, deep, limit = job
    scene = next(scene for scene in SCENES if scene.name == name)
    return explore(scene, scene.deep if deep else scene.quick, limit)
