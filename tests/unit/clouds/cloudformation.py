"""Enough of CloudFormation to read the template, and enough of IAM to ask what its policy allows.

moto's own evaluation leaves out conditions and resources, on which everything here depends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import yaml

TEMPLATE = Path(__file__).parents[3] / "deploy/lambda/template.yaml"
KNOWN = {
    "AWS::Partition": "aws",
    "AWS::Region": "eu-central-1",
    "AWS::AccountId": "123456789012",
    "ClusterName": "shop",
    "JoinTokenParameter": "/ebbtide/shop/join-token",
    "KubeconfigParameter": "/ebbtide/shop/kubeconfig",
}


class _Loader(yaml.SafeLoader):
    pass


def _known(name: str) -> str:
    return KNOWN.get(name, f"<{name}>")


def _intrinsic(loader: _Loader, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return {suffix: loader.construct_sequence(node, deep=True)}
    text = str(loader.construct_scalar(node))  # type: ignore[arg-type]  # a scalar, by now
    if suffix == "Sub":
        return re.sub(r"\$\{([^}]+)\}", lambda found: _known(found[1]), text)
    return _known(text)


_Loader.add_multi_constructor("!", _intrinsic)


@cache
def read_template() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(TEMPLATE.read_text(), _Loader)
    return found


def statements_of(role: str) -> list[dict[str, Any]]:
    policies = read_template()["Resources"][role]["Properties"]["Policies"]
    return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]


@dataclass(frozen=True)
class Request:
    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)


def allows(statements: Sequence[Mapping[str, Any]], request: Request) -> bool:
    """An explicit denial wins, and without an allowance there is none."""
    met = [statement["Effect"] for statement in statements if _applies(statement, request)]
    return "Deny" not in met and "Allow" in met


def _applies(statement: Mapping[str, Any], request: Request) -> bool:
    return (
        _any_like(statement["Action"], request.action)
        and _any_like(statement["Resource"], request.resource)
        and all(
            _holds(operator, key, value, request.context)
            for operator, pairs in statement.get("Condition", {}).items()
            for key, value in pairs.items()
        )
    )


def _any_like(patterns: str | Sequence[str], value: str) -> bool:
    found = [patterns] if isinstance(patterns, str) else patterns
    return any(fnmatchcase(value, pattern) for pattern in found)


def _holds(operator: str, key: str, wanted: str, context: Mapping[str, str]) -> bool:
    """A key that is missing makes an equality fail and an inequality hold, as in IAM."""
    match operator:
        case "StringEquals" | "NumericEquals":
            return context.get(key) == wanted
        case "StringNotEquals":
            return context.get(key) != wanted
        case _:
            raise ValueError(f"{operator} is not understood here")
