"""An inbox in memory, for notices that were handed over. Empty, it stands for having no inbox."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ebbtide.model.operation import SpotNotice
from ebbtide.ports import Inbox


class HandedInbox:
    def __init__(self, notices: Iterable[SpotNotice] = (), behind: Inbox | None = None) -> None:
        self._notices = list(notices)
        self._behind = behind

    @property
    def waiting(self) -> tuple[SpotNotice, ...]:
        """Those handed over that were not taken in yet."""
        return tuple(self._notices)

    def receive(self) -> Sequence[SpotNotice]:
        further = self._behind.receive() if self._behind is not None else ()
        return (*self._notices, *further)

    def acknowledge(self, notice: SpotNotice) -> None:
        if notice in self._notices:
            self._notices.remove(notice)
        elif self._behind is not None:
            self._behind.acknowledge(notice)
