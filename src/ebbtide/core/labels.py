"""Label requirements, as node affinity, pod selectors and disruption budgets use them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import assert_never

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
        case Operator.GREATER | Operator.LESS:
            have, limit = _integer(value), _integer(next(iter(requirement.values), None))
            if have is None or limit is None:
                return False
            return have > limit if requirement.operator is Operator.GREATER else have < limit
        case unknown:
            assert_never(unknown)


def _integer(value: str | None) -> int | None:
    return int(value) if value is not None and re.fullmatch("[+-]?[0-9]+", value) else None


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    return all(holds(requirement, labels) for requirement in selector.requirements)
