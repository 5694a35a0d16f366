"""Every story, struck at every single call in every way, with another runner taking over.

The calls of an undisturbed story_run are counted first. Then the story is told once for each of them and
each way to fail: dead just before, dead just after, carried out without an answer, failed, throttled, or
frozen until another runner has taken over. Quiet ticks after the end of a story are left out.
"""

from __future__ import annotations

from functools import cache, partial

import pytest

from ebbtide.simulator.faults.catalogue import CrashPlan, Strike
from tests.simulation import repack_stories, replace_stories, stories
from tests.simulation.conftest import CRASH_POINTS
from tests.simulation.stories import TICK_SECONDS, Story, StoryRun

CALLS_AFTER_THE_LAST_EFFECT = 8
STRIKES = (
    Strike.CRASH_BEFORE,
    Strike.CRASH_AFTER,
    Strike.LOST_REPLY,
    Strike.FAILED,
    Strike.THROTTLED,
    Strike.STALL,
)
STORIES = (*stories.STORIES, *repack_stories.STORIES, *replace_stories.STORIES)
by_name = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)


@cache
def calls_of(story: Story) -> tuple[str, ...]:
    """The labels of the calls that change something, up to a little after the last effect."""
    plan = CrashPlan()
    story_run = StoryRun(story)
    story_run.tell(plan)
    assert story_run.problems() == []
    effects = [number for number, call in enumerate(plan.calls) if not call.startswith("store.")]
    return tuple(plan.calls[: effects[-1] + CALLS_AFTER_THE_LAST_EFFECT])


@by_name
def test_an_undisturbed_story_ends_well(story: Story) -> None:
    calls = calls_of(story)
    assert any(call.startswith(("cluster.", "cloud.")) for call in calls)


@by_name
@pytest.mark.parametrize("strike", STRIKES, ids=lambda strike: strike.value)
def test_a_story_ends_well_wherever_it_is_struck(story: Story, strike: Strike) -> None:
    found: dict[str, list[str]] = {}
    for number, label in enumerate(calls_of(story), start=1):
        story_run = StoryRun(story)
        plan = CrashPlan(number, strike, on_stall=partial(take_over, story_run))
        story_run.tell(plan)
        assert plan.struck == label
        if strike in (Strike.CRASH_BEFORE, Strike.CRASH_AFTER):
            assert story_run.crashes == 1
        if story_run.problems():
            found[label] = story_run.problems()
        CRASH_POINTS.add((story.name, label, strike))
    assert found == {}


def take_over(story_run: StoryRun) -> None:
    """While the first runner is frozen its lease runs out, and a second one ticks. Then the first wakes."""
    settings = story_run.story.settings
    second = story_run.ports(CrashPlan())
    story_run.world.disturbances += 1
    waited = 0
    while waited <= settings.lock_ttl_seconds + settings.lease_margin_seconds:
        story_run.wait(TICK_SECONDS)
        waited += TICK_SECONDS
        story_run.story.before_tick(story_run.world, story_run.store)
        story_run.tick(second, "second")
