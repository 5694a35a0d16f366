"""Input from people and programs: text that is shown again, the days of a report, and log entries of a
period.

Text is shown again in a log, in a terminal or on a page. An escape sequence would let its author move an
operator's cursor, a line break would let them add lines to a log, and a database accepts neither NUL nor half
of a surrogate pair.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime, timedelta

from ebbtide.model.log import LogEntry, LogKind
from ebbtide.ports import Store

TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction of what follows, and so what a line seems to say."""
BREAKING = frozenset("\u2028\u2029")
STAND_IN = "\ufffd"


def why_not_plain(text: str) -> str:
    """Why it is refused; empty for one line of ordinary characters."""
    found = next((each for each in text if _is_control(each)), "")
    if not found:
        return ""
    return f"must be one line without control characters; U+{ord(found):04X} is one"


def shown(text: str) -> str:
    """For a terminal: lines and tabs stay, every other control character is one that can be seen."""
    return "".join(STAND_IN if _is_control(each) and each not in "\n\t" else each for each in text)


def _is_control(letter: str) -> bool:
    if letter in TURNING or letter in BREAKING:
        return True
    return unicodedata.category(letter) in ("Cc", "Cs")


DEFAULT_DAYS = 30
PAGE = 500


def wrong_day(first: str, last: str) -> tuple[str, str] | None:
    """Which of `from` and `to` is wrong, and how."""
    for name, value in (("from", first), ("to", last)):
        if value and not _is_day(value):
            return name, f"{value!r} is not a day; write it as 2026-01-31"
    if first and last and first > last:
        return "from", f"{first} is after {last}"
    return None


def bounds(first: str, last: str, now: int) -> tuple[str, str, str, str]:
    """First and last day, the name of the period, and which day was yesterday, in UTC."""
    today = datetime.fromtimestamp(now, UTC).date()
    yesterday = (today - timedelta(days=1)).isoformat()
    if not first and not last:
        start = today - timedelta(days=DEFAULT_DAYS - 1)
        return start.isoformat(), "", f"last_{DEFAULT_DAYS}_days", yesterday
    return first, last, f"{first or 'the beginning'}_to_{last or 'today'}".replace(" ", "_"), yesterday


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def logged_between(
    store: Store, kinds: Collection[LogKind], since: int, until: int, brief: bool = False
) -> Iterator[LogEntry]:
    """Newest first, up to the beginning. What came after the end is skipped."""
    before = ""
    while True:
        page = store.read_log(kinds, limit=PAGE, before=before, brief=brief)
        for entry in page:
            if entry.at < since:
                return
            if entry.at <= until:
                yield entry
        if len(page) < PAGE:
            return
        before = page[-1].id
