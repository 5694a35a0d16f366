"""Days as bounds of a report, as the API and the command line take them, and entries of the log within a
time, page by page, however many there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime, timedelta

from ebbtide.model.log import LogEntry, LogKind
from ebbtide.ports import Store

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
