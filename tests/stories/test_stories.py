"""Every story file of this folder is a test: all its expectations hold and no safety rule is violated.

Add a file, named after what it is about (`row-27-one-dead-worker.yaml`); there is nothing else to do. See
docs/stories.md for the keys.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbtide.simulator.story import play, read_story
from tests.stories.conftest import PLAYED

FOLDER = Path(__file__).parent
STORIES = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_holds(path: Path) -> None:
    PLAYED[path.name] = False
    result = play(read_story(path))
    told = [f"line {one.line}: {dict(one.expect)}: seen {one.seen}" for one in result.failed]
    assert result.ok, "\n".join([result.name, *told, *result.violations])
    PLAYED[path.name] = True


def test_there_are_stories() -> None:
    assert STORIES
