"""A record that contradicts itself stops nothing: it is put right, with an alarm."""

from __future__ import annotations

import pytest

from ebbtide.engine.notices import heal
from ebbtide.model.log import LogKind
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
    assert left.removesuffix("Owner") in report.says
    alarms = small.store.read_log([LogKind.ALARM])
    assert len(alarms) == len(small.notifier.entries) == 1, "said once, to both"
    assert small.record.contradictions == ()
    small.wait(10)
    assert "scalingInProgress" not in small.tick().says


def test_who_writes_first_has_healed_it_for_both() -> None:
    small = Small(quick_settings(cpu_down=0.0))
    small.tick()
    small.database.items["cluster"]["scalingInProgress"] = True
    record = small.record
    small.put(last_said="somebody else was here")
    assert len(heal(small.ports, record)) == 1
    assert small.record.contradictions == ()
