"""Budgets as they are written down: for the cluster, for a pool, in the environment, and what is refused."""

from __future__ import annotations

import pytest

from ebbtide.config.document import parse_document
from ebbtide.config.load import Config, build_config
from ebbtide.errors import ConfigError
from ebbtide.model.pool import CronWindow, RemovalBudget, RemovalReason


def read(text: str, **environ: str) -> Config:
    return build_config(parse_document(text, "ebbtide.yaml"), environ)


def one(text: str) -> RemovalBudget:
    (budget,) = read(f"budgets: [{text}]").settings.budgets
    return budget


def test_a_budget_is_a_count_or_a_share_with_reasons_and_a_window() -> None:
    assert one("{nodes: 2}") == one('{nodes: "2"}') == RemovalBudget(2)
    assert one('{nodes: "10%", reasons: [all]}') == RemovalBudget(10, percent=True)
    when = "schedule: '0 9 * * mon-fri', duration: 8h30m, zone: Europe/Berlin"
    assert one(f"{{nodes: 0, reasons: [Empty, rebalance], {when}}}") == RemovalBudget(
        0,
        reasons=(RemovalReason.EMPTY, RemovalReason.REBALANCE),
        window=CronWindow("0 9 * * mon-fri", "Europe/Berlin", 30_600),
    )


def test_consolidation_means_both_of_its_reasons_and_both_spellings_are_understood() -> None:
    both = (RemovalReason.EMPTY, RemovalReason.UNDERUTILISED)
    assert one("{nodes: 0, reasons: [consolidation]}").reasons == both
    assert one("{nodes: 0, reasons: [Underutilized, empty]}").reasons == both
    every = "idle, consolidation, rebalance, unhealthy, expired, drifted"
    assert one(f"{{nodes: 0, reasons: [{every}]}}").reasons == ()


@pytest.mark.parametrize(("text", "seconds"), [("1d", 86_400), ("2h", 7200), ("90m", 5400), ("45s", 45)])
def test_a_duration_has_its_unit(text: str, seconds: int) -> None:
    window = one(f"{{nodes: 1, schedule: '@daily', duration: {text}}}").window
    assert window == CronWindow("@daily", "UTC", seconds)


def test_a_pool_has_budgets_of_its_own_and_they_are_shown() -> None:
    config = read(
        "pools: [{name: a, types: [cpx22], zones: [z], budgets: [{nodes: 1}]}]",
        BUDGETS='[{nodes: "50%", reasons: [idle]}]',
    )
    assert config.settings.pools[0].budgets == (RemovalBudget(1),)
    assert config.settings.budgets == (RemovalBudget(50, True, (RemovalReason.IDLE,)),)
    shown = {found.key: (found.value, found.origin) for found in config.effective}
    assert shown["budgets"] == (["50% for idle"], "environment BUDGETS")
    assert shown["pools"][0] == ["a: cpx22 in z; on-demand; 0 or more; budget 1 nodes"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "budgets[0].nodes: is missing; allowed: a number of nodes, or a share"),
        ("{nodes: -1}", "budgets[0].nodes: -1 is not a limit; allowed: a number of nodes"),
        ("{nodes: 101%}", 'budgets[0].nodes: "101%" is not a limit'),
        ("{nodes: 1.5}", "budgets[0].nodes: 1.5 is not a limit"),
        ("{nodes: true}", "budgets[0].nodes: true is not a limit"),
        ("{nodes: 1, reasons: []}", "budgets[0].reasons: is empty; allowed: a list of idle, empty"),
        (
            "{nodes: 1, reasons: [drift]}",
            'budgets[0].reasons[0]: "drift" is no reason for a removal; allowed: idle',
        ),
        ("{nodes: 1, schedule: '0 25 * * *', duration: 1h}", "no schedule: the hour of '0 25 * * *' is '25'"),
        ("{nodes: 1, schedule: '@daily'}", "budgets[0].schedule: needs duration"),
        ("{nodes: 1, duration: 8h}", "budgets[0].duration: is given without schedule"),
        ("{nodes: 1, zone: UTC}", "budgets[0].zone: is given without schedule"),
        (
            "{nodes: 1, schedule: '@daily', duration: 8}",
            "budgets[0].duration: 8 is not a duration; allowed: a time",
        ),
        ("{nodes: 1, schedule: '@daily', duration: ''}", "is not a duration"),
        ("{nodes: 1, schedule: '@daily', duration: 400d}", "is not a duration"),
        (
            "{nodes: 1, schedule: '@daily', duration: 1h, zone: Mars}",
            "budgets[0].zone: \"Mars\" is not known: 'Mars' is not a time zone",
        ),
        ("{nodes: 1, reason: [idle]}", "budgets[0].reason: unknown key; did you mean reasons?"),
    ],
)
def test_a_wrong_budget_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(f"budgets: [{text}]")
    assert says in str(caught.value)


def test_a_wrong_budget_of_a_pool_is_refused_with_its_place() -> None:
    budgets = "[{nodes: 1}, {nodes: 2, schedule: '@daily'}]"
    with pytest.raises(ConfigError, match=r"pools\[0\]\.budgets\[1\]\.schedule: needs duration"):
        read(f"pools: [{{name: a, types: [cpx22], zones: [z], budgets: {budgets}}}]")
