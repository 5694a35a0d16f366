"""A record that contradicts itself stops nothing: it is corrected, with an alarm."""

from __future__ import annotations

import pytest

from ebbtide.engine.notices import heal
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.model.log import LogKind
from ebbtide.narrate import facts_in
from tests.unit.engine.builders import Small, quick_settings


@pytest.mark.parametrize("left", ["scalingInProgress", "lockOwner"])
def test_another_tool_leaves_the_record_half_written(left: str) -> None:
    small = Small(quick_settings(cpu_down=0.0))
    small.tick()
    item = small.database.items["cluster"]
    if left == "scalingInProgress":
        item["scalingInProgress"] = True
    else:
        item["lockOwner"] = "another tool"
        del item["lockUntilEpoch"]
    report = small.tick()
    assert report.held
    alarms = small.store.read_log([LogKind.ALARM])
    assert len(alarms) == len(small.notifier.entries) == 1, "said once, to both"
    (fact,) = facts_in(alarms, Alarm)
    assert fact.alarm is AlarmKind.RECORD_HEALED
    assert left.removesuffix("Owner") in fact.detail
    assert small.record.contradictions == ()
    small.wait(10)
    small.tick()
    assert len(small.store.read_log([LogKind.ALARM])) == 1


def test_who_writes_first_has_healed_it_for_both() -> None:
    small = Small(quick_settings(cpu_down=0.0))
    small.tick()
    small.database.items["cluster"]["scalingInProgress"] = True
    record = small.record
    small.put(last_said="somebody else was here")
    assert len(heal(small.ports, record)) == 1
    assert small.record.contradictions == ()
