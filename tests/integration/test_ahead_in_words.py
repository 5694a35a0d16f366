"""What is prepared for expected demand, in the same words wherever somebody looks: `ebbtide status`, the API
behind the page, and `ebbtide explain`."""

from __future__ import annotations

import re
from dataclasses import replace

from ebbtide.engine.foresight import Foresight
from ebbtide.engine.ports import Observers
from ebbtide.entrypoints.api.site import Seen
from ebbtide.entrypoints.api.views import News, status_shape
from ebbtide.entrypoints.views.decisions import decision_lines, record_lines
from ebbtide.model.decision import Action
from ebbtide.model.events import CostNoted
from ebbtide.model.settings import STEP_SECONDS, STEPS_A_DAY, ForecastSettings
from ebbtide.model.snapshot import Snapshot
from ebbtide.narrate import entry_of
from tests.builders import POOL
from tests.unit.engine.builders import Small, quick_settings

SAYS = re.compile(r"\d+ nodes ahead of \d\d:\d\d UTC, expected \d+ to \d+ pods in pool workers")
NIGHT, MOST = 1, 200


def noted(small: Small, days: int) -> None:
    """On each of the days before, 200 pods or a few more come with the next quarter of an hour."""
    step = small.now // STEP_SECONDS
    for each in range(step - days * STEPS_A_DAY, step):
        busy = 1 <= (each - step) % STEPS_A_DAY <= STEPS_A_DAY // 4
        pods = MOST + each * 7919 % 20 if busy else NIGHT
        fact = CostNoted(
            {}, 0, demand={POOL: (pods, pods * 100, pods * 128)}, demandSince=each * STEP_SECONDS
        )
        small.store.append([entry_of(f"{each:012d}", (each + 1) * STEP_SECONDS, fact, "demand")])


def test_status_page_and_explain_say_how_many_nodes_are_ahead_of_what() -> None:
    settings = quick_settings(cpu_down=0.0, max_workers=20, forecast=ForecastSettings(enabled=True))
    small = Small(settings=settings)
    small.database.keep_entries = 0
    noted(small, 9)
    foresight = Foresight(small.store, settings, small.ports.new_id)
    observer = Observers(small.ports.observer, foresight)
    report = small.tick(replace(small.ports, observer=observer, expecting=foresight.expecting))
    assert report.decision is not None
    assert report.decision.action is Action.SCALE_UP
    record = small.record
    told = next(one.says for one in record.headroom if SAYS.fullmatch(one.says))
    status = [str(line) for line in record_lines(record, settings, small.now)]
    assert any(line.startswith("headroom") and told in line for line in status)
    seen = Seen(Snapshot(small.now))
    shape = status_shape(record, seen, settings, "", small.now, News(None, None))
    assert told in [one.says for one in shape.headroom]
    assert any(told in str(line) for line in decision_lines(report.decision))
    off = next(one.says for one in record.headroom if one.says.startswith("forecast for pool spot"))
    assert off == "forecast for pool spot: off, demand is noted for 0 s and it takes 7 days"
