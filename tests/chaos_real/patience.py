"""Looking again and again at servers that do not always answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import urllib3
from botocore.exceptions import BotoCoreError, ClientError

from ebbtide.errors import EbbtideError
from tests.servers.kube_api import ApiRefused

PATIENCE = 30
BUSY = (urllib3.exceptions.HTTPError, OSError, ApiRefused, EbbtideError, BotoCoreError, ClientError)
"""Servers that do not answer just now. Anything else ends the thread that looks, which is a violation."""


def repeatedly(look: Callable[[], None], seconds: float, stop: threading.Event) -> threading.Thread:
    """A thread that looks again and again; a server that does not answer just then is asked again."""

    def run() -> None:
        while not stop.wait(seconds):
            try:
                look()
            except BUSY:
                continue

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def patiently(act: Callable[[], None]) -> None:
    """Once it succeeds: on a busy machine a server may take longer than its caller waits."""
    for _ in range(PATIENCE):
        try:
            return act()
        except BUSY:
            time.sleep(1)
    return act()
