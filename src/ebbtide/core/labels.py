"""Label requirements, as node affinity, pod selectors and disruption budgets use them."""

from __future__ import annotations

from collections.abc import Mapping

from ebbtide.model.scheduling import LabelSelector, Operator, Requirement


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case Operator.IN:
            return value in requirement.values
        case Operator.NOT_IN:
            return value not in requirement.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
        case Operator.GREATER:
            return _is_integer(value) and int(value or 0) > int(requirement.values[0])
        case Operator.LESS:
            return _is_integer(value) and int(value or 0) < int(requirement.values[0])


def _is_integer(value: str | None) -> bool:
    return value is not None and value.lstrip("-").isdigit()


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    return all(holds(requirement, labels) for requirement in selector.requirements)
