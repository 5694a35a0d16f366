"""Stories written in a test: a base that keys are laid over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from ebbtide.simulator.story import parse_story, play
from ebbtide.simulator.story.judge import StoryResult
from ebbtide.simulator.story.recorder import Done

POOLS = [{"name": "general", "types": ["cpx32"], "zones": ["a", "b"]}]
NODES = [{"name": "a1", "zone": "a"}, {"name": "b1", "zone": "b"}]


def text_of(**keys: Any) -> str:
    base = {"name": "a test", "until": 1800, "settings": {"pools": POOLS}, "nodes": NODES}
    return yaml.safe_dump({**base, **keys}, sort_keys=False)


def told(**keys: Any) -> StoryResult:
    return play(parse_story(text_of(**keys)))


def acts(result: StoryResult, kind: str) -> list[Done]:
    return [act for act in result.acts if act.act == kind]


def said(result: StoryResult) -> str:
    return "\n".join(f"{one.at}: {one.says}" for one in result.ticks)


def settings(**keys: Any) -> dict[str, Any]:
    return {"pools": POOLS, **keys}


def web(replicas: int = 2, **keys: Any) -> Sequence[dict[str, Any]]:
    return [{"name": "web", "replicas": replicas, "cpu": "500m", "memory": "512Mi", **keys}]
