"""Every target on the kept inputs and on what Hypothesis makes of them; `make fuzz` continues from there."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.seeds import CORPUS, kept
from tests.fuzz.targets import TARGETS

EXAMPLES = 25
"""Of each target: a glance with every push."""


@pytest.mark.parametrize("name", TARGETS)
def test_the_kept_inputs_are_read_or_refused(name: str) -> None:
    for data in kept(name):
        TARGETS[name](data)


def test_every_target_has_good_inputs_to_begin_from() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == TARGETS.keys()


@st.composite
def spoiled(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A kept input with a piece cut, doubled or replaced; or anything at all."""
    data = draw(st.sampled_from(seeds) | st.binary(max_size=200))
    at = draw(st.integers(0, len(data)))
    until = draw(st.integers(at, min(len(data), at + 40)))
    piece = draw(
        st.binary(max_size=8)
        | st.sampled_from([b"null", b"-1", b"1e999", b"{}", b"[]", b'""', b"\xff", b"1" * 5000])
    )
    return data[:at] + piece + data[until:]


@pytest.mark.parametrize("name", TARGETS)
def test_spoiled_inputs_are_read_or_refused(name: str) -> None:
    seeds = [data for data in kept(name) if len(data) < 4000] or [b"{}"]

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(spoiled(seeds))
    def each(data: bytes) -> None:
        TARGETS[name](data)

    each()
