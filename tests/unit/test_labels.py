"""Label requirements hold exactly where Kubernetes says they do."""

from __future__ import annotations

import pytest

from ebbtide.model.pod import LabelSelector, Requirement, SelectorOperator, holds, matches
from tests.builders import make_selector

LABELS = {"tier": "web", "cores": "8"}


def asks(key: str, operator: SelectorOperator, *values: str) -> bool:
    return holds(Requirement(key, operator, values), LABELS)


def test_in_holds_for_one_of_the_values_and_never_for_a_missing_label() -> None:
    assert asks("tier", SelectorOperator.IN, "db", "web")
    assert not asks("tier", SelectorOperator.IN, "db")
    assert not asks("zone", SelectorOperator.IN, "a")


def test_not_in_holds_for_another_value_and_also_for_a_missing_label() -> None:
    assert asks("tier", SelectorOperator.NOT_IN, "db")
    assert not asks("tier", SelectorOperator.NOT_IN, "web")
    assert asks("zone", SelectorOperator.NOT_IN, "a")


def test_exists_and_does_not_exist_look_at_the_key_alone() -> None:
    assert asks("tier", SelectorOperator.EXISTS)
    assert not asks("zone", SelectorOperator.EXISTS)
    assert asks("zone", SelectorOperator.DOES_NOT_EXIST)
    assert not asks("tier", SelectorOperator.DOES_NOT_EXIST)


def test_gt_and_lt_compare_as_numbers_and_strictly() -> None:
    assert asks("cores", SelectorOperator.GREATER, "7")
    assert not asks("cores", SelectorOperator.GREATER, "8")
    assert asks("cores", SelectorOperator.LESS, "16"), "as text, 8 would come after 16"
    assert not asks("cores", SelectorOperator.LESS, "8")


@pytest.mark.parametrize("operator", [SelectorOperator.GREATER, SelectorOperator.LESS])
@pytest.mark.parametrize(
    ("key", "values"), [("zone", ("1",)), ("tier", ("1",)), ("cores", ("many",)), ("cores", ())]
)
def test_a_comparison_of_what_is_not_a_number_does_not_hold(
    operator: SelectorOperator, key: str, values: tuple[str, ...]
) -> None:
    assert not asks(key, operator, *values)


def test_a_label_that_only_looks_like_a_number_is_none() -> None:
    assert not holds(Requirement("n", SelectorOperator.GREATER, ("0",)), {"n": "--5"})
    assert not holds(Requirement("n", SelectorOperator.GREATER, ("0",)), {"n": "1_000"})
    assert holds(Requirement("n", SelectorOperator.LESS, ("-1",)), {"n": "-2"})


def test_a_selector_matches_where_every_requirement_holds() -> None:
    assert matches(make_selector(tier="web", cores="8"), LABELS)
    assert not matches(make_selector(tier="web", cores="9"), LABELS)


def test_a_selector_with_no_requirement_matches_everything() -> None:
    assert matches(LabelSelector(), {})
