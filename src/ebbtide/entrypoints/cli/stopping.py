"""SIGTERM and Ctrl-C end a command that stays.

A signal handler runs in the main thread, between any two of its steps. If the main thread is just taking or
releasing the lock of an event, a handler that sets this event waits for the thread that it interrupted. So
the handler only puts a value into a queue whose `put` may interrupt itself, and a thread sets the event.
"""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def set_by_signals(stop: threading.Event) -> Iterator[None]:
    """Until the end, SIGTERM and SIGINT set `stop`; then they do what they did before."""
    heard: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def set_when_heard() -> None:
        if heard.get():
            stop.set()

    thread = threading.Thread(target=set_when_heard, name="signals", daemon=True)
    with ExitStack() as undo:
        undo.callback(thread.join)
        undo.callback(heard.put, False)
        thread.start()
        for number in SIGNALS:
            undo.callback(signal.signal, number, signal.signal(number, lambda *_: heard.put(True)))
        yield
