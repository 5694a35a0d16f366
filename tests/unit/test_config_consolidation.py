"""The `consolidation` group: the defaults of the policy, and a key and a variable for every field."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal

import pytest

from ebbtide.config.document import parse_document
from ebbtide.config.load import Config, build_config
from ebbtide.config.problems import leaf_fields
from ebbtide.errors import ConfigError
from ebbtide.model.consolidation import ConsolidationSettings


def read(text: str, **environ: str) -> Config:
    return build_config(parse_document(text, "ebbtide.yaml"), environ)


def test_every_field_has_a_key() -> None:
    keys = {path[1] for path, _ in leaf_fields() if path[0] == "consolidation"}
    assert keys == {field.name.replace("_seconds", "_sec") for field in fields(ConsolidationSettings)}


def test_file_and_environment_are_read() -> None:
    text = "consolidation: {enabled: true, cooldown_sec: 60, min_savings_per_hour: 0.05, max_fill: 0.8}"
    found = read(
        text, CONSOLIDATION_MOVES_PER_HOUR="7", CONSOLIDATION_MOVE_COST="0.01"
    ).settings.consolidation
    assert (found.enabled, found.cooldown_seconds, found.moves_per_hour) == (True, 60, 7)
    assert (found.min_savings_per_hour, found.max_fill) == (Decimal("0.05"), Decimal("0.8"))
    assert found.move_cost == Decimal("0.01")


def test_an_impossible_fill_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"consolidation\.max_fill: 1\.2"):
        read("consolidation: {max_fill: 1.2}")
