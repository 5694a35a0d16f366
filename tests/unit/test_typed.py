"""Types are learned by one thread at a time; msgspec alone does not see to that."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import msgspec
import pytest

from ebbtide import typed

RACE = """
import sys, threading
from dataclasses import make_dataclass
from ebbtide import typed
sys.setswitchinterval(1e-6)
for turn in range(40):
    inner = [make_dataclass(f"Inner{turn}_{n}", [("a", int, 1), ("b", str, "")]) for n in range(30)]
    outer = make_dataclass(f"Outer{turn}", [(f"f{n}", inner[n]) for n in range(30)])
    body = {f"f{n}": {"a": 1, "b": "x"} for n in range(30)}
    together = threading.Barrier(8)
    def first_use():
        together.wait()
        typed.convert(body, outer)
    threads = [threading.Thread(target=first_use) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
print("alive")
"""


def test_threads_that_use_a_type_for_the_first_time_at_once_do_not_crash_the_process() -> None:
    """With `msgspec.convert` in its place this ends with a segmentation fault in the first turns."""
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "alive\n", "")


@dataclass(frozen=True)
class Thing:
    count: int
    names: tuple[str, ...] = ()


def test_data_and_json_become_what_is_asked_for() -> None:
    assert typed.convert({"count": 2, "names": ["a"]}, Thing) == Thing(2, ("a",))
    assert typed.decode(b'{"count": 3}', Thing) == Thing(3)
    assert typed.decoder(Thing) is typed.decoder(Thing)
    with pytest.raises(msgspec.ValidationError):
        typed.decode(b'{"count": "3"}', Thing)
