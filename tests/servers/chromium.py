"""A real Chromium (Debian's package) that Playwright drives, with a new profile for each run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from tests.servers.control_plane import ensure_debian

QUIET = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-first-run",
    "--no-proxy-server",
)
"""It asks nobody but the server of the test, and needs neither a screen nor much shared memory."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """`Unavailable` where this machine has none and none can be installed."""
    binary = ensure_debian("chromium", "chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=binary, headless=True, chromium_sandbox=False, args=list(QUIET)
        )
        try:
            yield browser
        finally:
            browser.close()
