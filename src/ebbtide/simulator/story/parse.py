"""From a file to a checked story. All problems are reported at once, each with its line and what is
allowed there; nothing runs before the file is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from pydantic import ValidationError

from ebbtide.config import Config
from ebbtide.config.document import Read, parse_document
from ebbtide.config.load import ConfigProblems, build_config
from ebbtide.config.problems import ConfigProblem, path_text
from ebbtide.errors import ConfigError
from ebbtide.simulator.recording.file import Recording, is_recording, read_recording
from ebbtide.simulator.story.checks import check, problems_in
from ebbtide.simulator.story.schemas import StoryKeys
from ebbtide.simulator.world.rules import Curve, Demand

HINT = "Correct the story; `ebbtide simulate --schema` prints all keys."


@dataclass(frozen=True, slots=True)
class Written:
    line: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Story:
    """A story that can be played."""

    keys: StoryKeys
    config: Config
    """What its settings say."""
    configs: Mapping[int, Config]
    """What is rolled out by its events, by their numbers."""
    expected: tuple[Written, ...]
    """The expectations as they are written."""
    demands: Mapping[str, Demand] = field(default_factory=dict)
    """What a recording says that workloads asked for, by namespace/name."""


def read_story(path: Path) -> Story:
    """A story file, or a recording."""
    if is_recording(path):
        return story_of(read_recording(path), str(path))
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"the story {path} cannot be read: {error.strerror}; nothing ran. Name a story file "
            "or a recording, or leave it out to play a --scenario."
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the story {path} is not text in UTF-8; nothing ran") from error
    return parse_story(text, str(path))


def parse_story(text: str, name: str = "story.yaml") -> Story:
    read = parse_document(text, name, "name: a quiet day", HINT)
    try:
        keys = StoryKeys.model_validate(read.values)
    except ValidationError as error:
        raise _refusal(_lines(problems_in(error), read)) from None
    config, wrong = _config(read, ("settings",), keys.settings)
    configs: dict[int, Config] = {}
    merged = keys.settings
    for number, event in enumerate(keys.events):
        if event.kind == "settings":
            merged = laid_over(merged, event.settings)
            found, more = _config(read, ("events", number, "settings"), merged)
            wrong += more
            if found is not None:
                configs[number] = found
    problems = list(check(keys, [config, *configs.values()])) if config is not None else []
    wrong += _lines(problems, read)
    if wrong or config is None:
        raise _refusal(wrong)
    expected = read.values.get("expect", ())
    written = tuple(Written(read.line(("expect", number)), one) for number, one in enumerate(expected))
    return Story(keys, config, configs, written)


def story_of(recording: Recording, name: str, settings: Mapping[str, Any] | None = None) -> Story:
    """A recording as a story, with its own settings or with others."""
    keys = recording.story if settings is None else {**recording.story, "settings": settings}
    story = parse_story(msgspec.json.encode(keys).decode(), name)
    demands = {
        key: Demand(Curve.RECORDED, points=tuple(zip(series.at, series.replicas, strict=True)))
        for key, series in recording.demand.items()
    }
    unknown = sorted(set(demands) - {workload.key for workload in story.keys.workloads})
    if unknown:
        raise ConfigError(f"{name} holds demand of {unknown[0]}, which is not a workload of it; nothing ran")
    return replace(story, demands=demands)


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Sections are merged key by key; lists and single values are replaced."""
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = laid_over(merged[key], value) if both else value
    return merged


def _config(
    read: Read, place: tuple[str | int, ...], values: Mapping[str, Any]
) -> tuple[Config | None, list[tuple[int, str]]]:
    """The settings, checked as `ebbtide config check` does, and what is wrong with them by line."""
    depth = len(place)
    lines = {path[depth:]: line for path, line in read.lines.items() if path[:depth] == place}
    lines = {path: line for path, line in lines.items() if path} or {}
    placed = Read(read.name, dict(values), lines)
    try:
        return build_config(placed, {}, with_prices="prices" in values), []
    except ConfigProblems as error:
        around = read.line(place)
        return None, [(line or around, _placed(line, around, said, read)) for line, said in error.lines]


def _placed(line: int, around: int, said: str, read: Read) -> str:
    """A key that comes from elsewhere (a default, or what an event changes) has no line here."""
    return said if line > 0 else f"{read.name} line {around}, settings: {said.partition(', ')[2] or said}"


def _lines(problems: Sequence[ConfigProblem], read: Read) -> list[tuple[int, str]]:
    return [(line, said) for line, said in _placed_lines(problems, read)]


def _placed_lines(problems: Sequence[ConfigProblem], read: Read) -> Iterator[tuple[int, str]]:
    for problem in problems:
        line = read.line(problem.path) or read.lines.get((), 1)
        where = f", {path_text(problem.path)}" if problem.path else ""
        yield line, f"{read.name} line {line}{where}: {problem.says}"


def _refusal(lines: Sequence[tuple[int, str]]) -> ConfigError:
    count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    text = "\n".join(f"  {said}" for _, said in sorted(lines))
    return ConfigError(f"the story has {count}; nothing ran.\n{text}\n{HINT}")
