"""The JSON schema comes from the shapes that the parser reads, so both know the same keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ebbtide.config.document import parse_document
from ebbtide.simulator.story.event_schemas import KINDS
from ebbtide.simulator.story.schemas import schema_text, story_schema
from tests.e2e.shell import Shell
from tests.stories.playing import text_of
from tests.stories.test_stories import STORIES

CHECKER = jsonschema.Draft202012Validator(story_schema())


def values_of(text: str) -> Any:
    return json.loads(json.dumps(parse_document(text, "story.yaml").values))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_every_story_follows_it(path: Path) -> None:
    CHECKER.validate(values_of(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "wrong",
    [
        {"colour": "red"},
        {"events": [{"at": -1, "cordon": "a1"}]},
        {"events": [{"at": 1, "cordon": "a1", "wake": "dev"}]},
        {"events": [{"at": 1}]},
        {"events": [{"at": 1, "settings": {"max_worker": 3}}]},
        {"settings": {"cpu_upp": 0.5}},
        {"expect": [{"never": "reboot"}]},
        {"workloads": [{"name": "web", "kind": "Deploymnt"}]},
    ],
    ids=str,
)
def test_what_the_parser_refuses_it_refuses(wrong: dict[str, Any]) -> None:
    assert not CHECKER.is_valid(values_of(text_of(**wrong)))


def test_it_knows_every_kind_of_event() -> None:
    event = story_schema()["$defs"]["EventKeys"]
    assert [one["required"] for one in event["oneOf"]] == [[kind] for kind in KINDS]


def test_the_command_prints_it(tmp_path: Path) -> None:
    assert Shell(tmp_path).run("simulate", "--schema").out == f"{schema_text()}\n"
