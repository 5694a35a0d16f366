from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.servers.chromium import chromium
from tests.servers.control_plane import Unavailable
from tests.servers.having import leave_out


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Where there is none and none can be had, the run says so in its last lines. One for each module: while
    it is open, Playwright has an event loop in this thread, which others may not like."""
    try:
        with chromium() as found:
            yield found
    except Unavailable as missing:
        leave_out(str(missing))
