"""Story files as seeds: what each is about, with faults of a runner's calls laid over it.

A story's expectations are of a run without faults and are not asked here; that no safety rule is broken is.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from ebbtide.simulator.faults.catalogue import OF_CALLS
from ebbtide.simulator.story import play, read_story
from tests.swarm.clusters import CALM_SECONDS
from tests.swarm.run import Outcome

FOLDER = Path(__file__).parents[1] / "stories"
STORIES = sorted(FOLDER.glob("*.yaml"))
MOST_FAULTS = 4


def run_story(seed: int) -> Outcome:
    """One of the stories after the other, each time with other faults."""
    path = STORIES[seed % len(STORIES)]
    chance = random.Random(f"swarm/stories/{seed}")
    faults = tuple(chance.sample(sorted(OF_CALLS), chance.randint(1, MOST_FAULTS)))
    story = read_story(path)
    changed = {
        "seed": seed,
        "faults": faults,
        "until": story.keys.until + CALM_SECONDS,
        "calm_sec": CALM_SECONDS,
        "expect": (),
    }
    try:
        result = play(replace(story, keys=story.keys.model_copy(update=changed)))
    except Exception as error:
        said = f"the story failed: {type(error).__name__}: {error}"
        return Outcome(seed, (path.stem, *faults), 0, (said,))
    return Outcome(seed, (path.stem, *faults), len(result.ticks), result.violations)
