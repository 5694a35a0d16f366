"""Profiles: a named set of values under which every key can still be set by itself."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ebbtide.config.document import parse_document
from ebbtide.config.load import Config, build_config
from ebbtide.config.problems import leaf_fields
from ebbtide.config.profiles import PROFILES
from ebbtide.errors import ConfigError
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.settings import Settings
from tests.builders import make_settings


def read(text: str, **environ: str) -> Config:
    return build_config(parse_document(text, "ebbtide.yaml"), environ)


def origins(config: Config) -> dict[str, str]:
    return {found.key: found.origin for found in config.effective}


def test_classic_is_exactly_the_documents_and_the_default() -> None:
    plain, classic = read(""), read("profile: classic")
    assert plain.settings == classic.settings
    assert Settings(pools=plain.settings.pools) == plain.settings


def test_every_value_of_a_profile_is_that_of_a_key() -> None:
    keys = {path for path, _ in leaf_fields()}
    for values in PROFILES.values():
        for key, value in values.items():
            inner = [(key, name) for name in value] if isinstance(value, dict) else [(key,)]
            assert set(inner) <= keys


def test_a_key_that_is_set_wins_over_the_profile_and_show_says_which_is_from_where() -> None:
    config = read(
        "profile: balanced\nidle_down_sec: 42\nconsolidation: {cooldown_sec: 77}", COOLDOWN_DOWN_SEC="33"
    )
    settings = config.settings
    assert (settings.idle_down_seconds, settings.cooldown_down_seconds) == (42, 33)
    assert settings.consolidation.cooldown_seconds == 77
    assert settings.consolidation.enabled
    said = origins(config)
    assert said["idle_down_sec"] == "file ebbtide.yaml line 2"
    assert said["cooldown_down_sec"] == "environment COOLDOWN_DOWN_SEC"
    assert said["pending_up_sec"] == "profile balanced"
    assert said["consolidation.enabled"] == "profile balanced"
    assert said["cpu_up"] == "default"
    assert said["profile"] == "file ebbtide.yaml line 1"


def test_a_profile_can_come_from_the_environment() -> None:
    assert read("", PROFILE="eager").settings.batch_up_fraction == 1.0


def test_a_profile_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ConfigError, match=r'"fast" is not allowed; allowed: classic, balanced or eager'):
        read("profile: fast")


@pytest.mark.parametrize("wrong", ["profile: [a]", "profile: balanced\nconsolidation: 3"])
def test_what_is_no_profile_or_no_section_is_refused_and_not_filled_in(wrong: str) -> None:
    with pytest.raises(ConfigError):
        read(wrong)


def test_batches_are_shares_where_these_are_more() -> None:
    settings = make_settings(batch_up_fraction=0.25, batch_down_fraction=0.10, max_workers=500)
    assert [settings.batch_up(workers) for workers in (0, 4, 9, 100)] == [2, 2, 3, 25]
    assert [settings.batch_down(workers) for workers in (0, 19, 20, 100)] == [1, 1, 2, 10]
    assert make_settings(batch_up_fraction=1.0, max_workers=500).batch_up(0) == 500, "whatever is needed"


def test_savings_and_moves_are_shares_where_these_are_more() -> None:
    rules = ConsolidationSettings(
        min_savings_per_hour=Decimal("0.01"),
        min_savings_fraction=Decimal("0.02"),
        moves_fraction=Decimal("0.5"),
    )
    assert rules.least_savings(Decimal("0.1")) == Decimal("0.01")
    assert rules.least_savings(Decimal(10)) == Decimal("0.20")
    assert (rules.moves_allowed(10), rules.moves_allowed(1000)) == (60, 500)
