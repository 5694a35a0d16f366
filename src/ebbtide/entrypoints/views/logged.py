"""Entries of the log within a time, page by page, however many there are."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ebbtide.model.log import LogEntry, LogKind
from ebbtide.ports import Store

PAGE = 500


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
