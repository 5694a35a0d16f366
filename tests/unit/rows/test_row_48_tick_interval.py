"""Row 48: `config check` and the Lambda refuse an interval above `max_tick_gap_sec`."""

from __future__ import annotations

import pytest

from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.entrypoints.aws_lambda import longest_gap_seconds, refuse_slow_schedule
from ebbtide.errors import ConfigError
from tests.builders import make_settings
from tests.unit.clouds.cloudformation import TEMPLATE


def test_config_check_refuses_an_interval_that_would_never_count_as_idle() -> None:
    with pytest.raises(ConfigError, match=r"301 is above max_tick_gap_sec \(300\)"):
        build_config(parse_document("interval_sec: 301", "ebbtide.yaml"), {})
    build_config(parse_document("interval_sec: 300", "ebbtide.yaml"), {})
    build_config(parse_document("interval_sec: 600\nmax_tick_gap_sec: 600", "ebbtide.yaml"), {})


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [
        ("rate(1 minute)", 60),
        ("rate(5 minutes)", 300),
        ("rate(1 hour)", 3600),
        ("rate(1 day)", 86_400),
        ("cron(* * * * ? *)", 60),
        ("cron(*/5 * * * ? *)", 300),
        ("cron(0/10 * * * ? *)", 600),
        ("cron(0,10,40 * * * ? *)", 1800),
        ("cron(0-30/5,35,40,45,50,55 * * * ? *)", 300),
        ("cron(7 * * * ? *)", 3600),
        ("cron(* 8-18 * * ? *)", 3600),
        ("cron(* * ? * MON-FRI *)", 3600),
    ],
)
def test_the_longest_gap_of_a_schedule(schedule: str, seconds: int) -> None:
    assert longest_gap_seconds(schedule) == seconds
    settings = make_settings(max_tick_gap_seconds=seconds)
    refuse_slow_schedule(schedule, settings)
    with pytest.raises(ConfigError, match="no idle time would ever be counted"):
        refuse_slow_schedule(schedule, make_settings(max_tick_gap_seconds=seconds - 1))


@pytest.mark.parametrize("wrong", ["every minute", "cron(x * * * ? *)", "cron(75 * * * ? *)", "rate(1 week)"])
def test_what_is_no_schedule_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="nothing was touched"):
        refuse_slow_schedule(wrong, make_settings())


def test_without_a_schedule_nothing_is_refused() -> None:
    refuse_slow_schedule(" ", make_settings())


def test_the_template_tells_the_function_its_schedule() -> None:
    assert "TICK_SCHEDULE: !Ref Schedule" in TEMPLATE.read_text()
