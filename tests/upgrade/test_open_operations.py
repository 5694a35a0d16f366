"""Operations that an earlier version left open are carried to their end by this one, in the same world."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.adapters.stores.codec.record import from_item
from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.model.log import LogKind
from ebbtide.simulator.checker.checker import Checker, WatchedStore
from ebbtide.simulator.run.persistent import decode
from ebbtide.simulator.world.clock import VirtualClock
from tests.simulation import repack_stories, stories
from tests.simulation.stories import TICK_SECONDS, StoryRun
from tests.upgrade.left_behind import NAMES, LeftBehind, Scene, left_behind

STORIES = {story.name: story for story in (*stories.STORIES, *repack_stories.STORIES)}
SCENES = [(name, scene) for name in NAMES for scene in left_behind(name).scenes()]
ITEMS = {name: left_behind(name).items() for name in NAMES}


def taken_over(old: str, scene: Scene) -> StoryRun:
    """The story from where it was left, by a runner of this version."""
    story_run = StoryRun(STORIES[scene.story])
    story_run.clock = VirtualClock(scene.now)
    story_run.world = decode(scene.world)
    story_run.checker = Checker(story_run.world, story_run.story.settings)
    record = from_item(ITEMS[old][scene.cluster], "cluster")
    store = MemoryStore(story_run.clock, database=MemoryDatabase())
    for _ in range(record.lock_token):  # tokens must continue from where they were
        store.release(store.acquire("cluster", "before", 1))
    story_run.checker.wrote(store.write(replace(record, rev=0), None), None)
    story_run.store = WatchedStore(store, story_run.checker)
    return story_run


@pytest.mark.parametrize(("old", "scene"), SCENES, ids=[f"{name}-{scene.cluster}" for name, scene in SCENES])
def test_it_ends_well(old: str, scene: Scene) -> None:
    story_run = taken_over(old, scene)
    before = story_run.record
    works = [work.id for work in (before.operation, *before.spots) if work is not None]
    assert works
    for _ in range(story_run.story.ticks + 20):
        story_run.story.before_tick(story_run.world, story_run.store)
        story_run.tick()
        story_run.wait(TICK_SECONDS)
    assert story_run.problems() == []
    closed = story_run.store.read_log([LogKind.OPERATION_CLOSED], limit=1000)
    assert set(works) <= {entry.subject for entry in closed}


def test_every_kind_of_operation_was_left_open() -> None:
    newest = LeftBehind(NAMES[-1])
    kinds = {key for item in newest.items().values() for key in item if key.endswith("ActionId")}
    assert kinds == {"scaleUpActionId", "scaleDownActionId", "consolidateActionId"}
    assert any(item.get("spotOperations") for item in newest.items().values())
