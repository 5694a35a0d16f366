"""The examples of docs/stories.md run as they stand, and so do the stories of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ebbtide.simulator.run.scenarios import SCENARIOS, story_named, text_of
from ebbtide.simulator.story import parse_story, play
from tests.stories.conftest import PLAYED
from tests.stories.test_schema import CHECKER, values_of

PAGE = Path(__file__).parents[2] / "docs" / "stories.md"
EXAMPLES = re.findall(
    r"^```yaml\n(name: .*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)


def test_there_are_five_examples() -> None:
    assert len(EXAMPLES) == 5


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_docs_holds(number: int) -> None:
    result = play(parse_story(EXAMPLES[number], f"docs/stories.md example {number + 1}"))
    PLAYED[f"docs example {number + 1}"] = result.ok
    assert result.ok, [*result.failed, *result.violations]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_a_story(name: str) -> None:
    CHECKER.validate(values_of(text_of(name)))
    assert story_named(name, seed=3).keys.seed == 3


@pytest.mark.parametrize("name", ["burst", "zone-outage", "stuck-drain", "crashy"])
def test_the_story_of_a_scenario_holds(name: str) -> None:
    result = play(story_named(name, seed=2))
    PLAYED[f"scenario {name}"] = result.ok
    assert result.ok, [*result.failed, *result.violations]
