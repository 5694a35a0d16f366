"""What a backtest tries: the settings of the recording, configuration files, profiles, and single keys.

    candidates(recorded, [Path("a.yaml")], ["eager"], ["max_workers=20", "consolidation.enabled=true"])

Each file and each profile is a candidate of its own. All `key=value` together are one more, over the settings
of the recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ebbtide.config.document import Read, parse_document, read_document
from ebbtide.config.load import ConfigProblems, build_config
from ebbtide.config.profiles import PROFILES
from ebbtide.errors import Usage
from ebbtide.simulator.recording.scope import settings_of
from ebbtide.simulator.story.parse import laid_over

AS_RECORDED = "as recorded"
SETTINGS = "settings"


@dataclass(frozen=True, slots=True)
class Candidate:
    name: str
    settings: Mapping[str, Any]


def candidates(
    recorded: Mapping[str, Any], files: Sequence[Path], profiles: Sequence[str], changes: Sequence[str]
) -> list[Candidate]:
    """The settings of the recording first."""
    found = [Candidate(AS_RECORDED, recorded), *_from_files(files)]
    for profile in profiles:
        if profile not in PROFILES:
            raise Usage(f"there is no profile {profile!r}; nothing ran. Allowed: {', '.join(PROFILES)}")
        found.append(_checked(f"profile {profile}", {**recorded, "profile": profile}))
    if changes:
        laid = recorded
        for change in changes:
            laid = laid_over(laid, _nested(*_parted(change)))
        found.append(_checked(", ".join(changes), laid))
    return found


def _checked(name: str, settings: Mapping[str, Any]) -> Candidate:
    """What is wrong with it is said in the words of who typed it: they know of no file with a line 1."""
    try:
        read = parse_document(_encoded(settings).decode(), SETTINGS, "", "")
        build_config(Read(SETTINGS, read.values), {}, with_prices="prices" in settings)
    except ConfigProblems as error:
        said = "".join(f"\n  {line.removeprefix(f'{SETTINGS}, ')}" for _, line in error.lines)
        raise Usage(
            f"{name} does not fit the settings of the recording; nothing ran.{said}\n"
            "Correct --set or --profile. `ebbtide config show` prints all keys."
        ) from None
    return Candidate(name, settings)


def with_today(found: Sequence[Candidate], path: Path) -> tuple[list[Candidate], str]:
    """With the settings of this file among them, and which candidate has these."""
    settings = _settings_in(path)
    same = next((one.name for one in found if _encoded(one.settings) == _encoded(settings)), None)
    if same is not None:
        return list(found), same
    today = Candidate(f"today ({path.name})", settings)
    return [*found, today], today.name


def _encoded(settings: Mapping[str, Any]) -> bytes:
    """As a recording holds them: one that went through a file has lists where this one has tuples."""
    return msgspec.json.encode(dict(settings), order="deterministic")


def _from_files(paths: Sequence[Path]) -> Iterator[Candidate]:
    """Each once, by its name, or by its path where two have the same name: rows are told apart by it."""
    distinct = list(dict.fromkeys(paths))
    names = [path.name for path in distinct]
    for path in distinct:
        yield Candidate(path.name if names.count(path.name) == 1 else str(path), _settings_in(path))


def _settings_in(path: Path) -> dict[str, Any]:
    read = read_document(path)
    return settings_of(read.values, build_config(read, {}))


def _parted(change: str) -> tuple[list[str], Any]:
    key, equals, text = change.partition("=")
    if not equals or not key or not all(key.split(".")):
        raise Usage(f"--set {change!r} is not key=value; nothing ran. Write it as --set max_workers=20.")
    try:
        return key.split("."), yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Usage(f"--set {change!r}: the value cannot be read; nothing ran.") from error


def _nested(path: Sequence[str], value: Any) -> dict[str, Any]:
    return {path[0]: _nested(path[1:], value) if len(path) > 1 else value}
