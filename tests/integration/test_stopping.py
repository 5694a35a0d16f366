"""SIGTERM and Ctrl-C end a command that stays, whatever the main thread is doing."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from ebbtide.entrypoints.cli.stopping import SIGNALS, set_by_signals

LONG_SECONDS = 30.0


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.timeout(60, method="thread")
def test_a_signal_between_two_steps_of_the_main_thread_waits_for_nothing(number: signal.Signals) -> None:
    stop = threading.Event()
    with set_by_signals(stop):
        with stop._cond:  # type: ignore[attr-defined]  # as the main thread does when it begins to wait
            signal.raise_signal(number)
        assert stop.wait(LONG_SECONDS)


def test_a_signal_ends_the_wait_of_the_main_thread() -> None:
    stop = threading.Event()
    with set_by_signals(stop):
        threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGTERM]).start()
        assert stop.wait(LONG_SECONDS)


def test_afterwards_signals_do_what_they_did_before() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    stop = threading.Event()
    with set_by_signals(stop):
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before
    assert not stop.is_set()
    assert not [thread for thread in threading.enumerate() if thread.name == "signals"]
