"""How commands write to the terminal: in colour, or as plain lines where stdout is not a terminal. Escape
sequences that others wrote are shown as letters.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from ebbtide.core.words import a_while
from ebbtide.entrypoints.views.inputs import shown

GOOD, BAD, QUIET, STRONG = "green", "red", "bright_black", "bold"


class PlainConsole(Console):
    """What others wrote may hold escape sequences; whatever is printed here is letters only."""

    def print(self, *objects: Any, **named: Any) -> None:
        super().print(*map(_without_controls, objects), **named)


def _without_controls(printed: Any) -> Any:
    if isinstance(printed, str):
        return shown(printed)
    if isinstance(printed, Text) and shown(printed.plain) != printed.plain:
        cleaned = printed.copy()
        cleaned.plain = shown(printed.plain)
        return cleaned
    return printed


def console() -> Console:
    return PlainConsole(file=sys.stdout, highlight=False, markup=False, soft_wrap=True)


def write_lines(lines: Iterable[Text | str]) -> None:
    out = console()
    for line in lines:
        out.print(line)


def write_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def moment(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if epoch else "never"


def span(seconds: float) -> str:
    return a_while(round(seconds))


def ago(epoch: float, now: float) -> str:
    return f"{span(now - epoch)} ago" if epoch else "never"


def rows(pairs: Iterable[tuple[str, Text | str]]) -> list[Text]:
    """Names in one column, what they say in the next."""
    found = list(pairs)
    width = max((len(name) for name, _ in found), default=0)
    return [Text.assemble((f"{name:<{width}}  ", QUIET), says) for name, says in found]
