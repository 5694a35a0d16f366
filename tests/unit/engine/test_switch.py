"""The switch for removals is written whatever else is being written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.engine.switch import ATTEMPTS, resumed, set_switch
from ebbtide.errors import Conflict
from ebbtide.model.events import SwitchedBy, SwitchSet
from ebbtide.model.log import LogKind
from ebbtide.narrate import facts_in
from tests.builders import make_scale_down, make_scale_up, make_slot
from tests.unit.engine.builders import MeddlingStore, Small


def meddled(small: Small, times: int) -> MeddlingStore:
    store = MeddlingStore(small.clock, database=small.database)
    store.times = times
    return store


def test_the_switch_is_set_also_where_others_write_first() -> None:
    small = Small()
    store = meddled(small, ATTEMPTS - 1)
    before = set_switch(store, small.clock, lambda: "id", SwitchedBy.API, True, "games")
    assert not before.paused
    assert (small.record.paused, small.record.pause_reason) == (True, "games")
    assert facts_in(small.store.read_log([LogKind.SWITCH]), SwitchSet) == [
        SwitchSet(True, SwitchedBy.API, "games")
    ]


def test_the_switch_is_written_once_with_its_entry() -> None:
    small = Small()
    rev = small.record.rev
    set_switch(small.store, small.clock, lambda: "id-7", SwitchedBy.API, True)
    assert small.record.rev == rev + 1
    (entry,) = small.store.read_log([LogKind.SWITCH])
    assert (entry.id, entry.at) == ("id-7", small.now)


def test_after_so_many_other_writers_the_switch_is_not_set_and_that_is_said() -> None:
    small = Small()
    began = small.clock.now()
    with pytest.raises(Conflict):
        set_switch(meddled(small, ATTEMPTS), small.clock, lambda: "id", SwitchedBy.API, True)
    assert not small.record.paused
    assert small.clock.now() - began == pytest.approx(0.1 * (ATTEMPTS - 1)), "others get a chance in between"


def test_a_pause_takes_nothing_up_and_resuming_does_with_all_its_time() -> None:
    small = Small()
    up, down = make_scale_up(make_slot(), started_at=5), make_scale_down(id="down")
    small.put(launching_aside=up, removing_aside=down, unclean_runs=3, unclean_removal_runs=2)
    set_switch(small.store, small.clock, lambda: "1", SwitchedBy.API, True)
    assert (small.record.launching, small.record.removing) == (None, None)
    assert small.record.launching_aside == up
    set_switch(small.store, small.clock, lambda: "2", SwitchedBy.API, False)
    record = small.record
    assert not record.paused
    assert record.launching == replace(up, started_at=small.now)
    assert record.removing == replace(down, started_at=small.now)
    assert record.all_set_aside == ()
    assert (record.unclean_runs, record.unclean_removal_runs) == (0, 0)


def test_what_resuming_did_is_said() -> None:
    small = Small()
    assert resumed(small.record) == "Removals were not paused."
    assert resumed(replace(small.record, paused=True)) == "Removals are allowed again."
