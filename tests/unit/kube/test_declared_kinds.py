"""Which objects are read follows the two switches; what is not read is not taken for gone."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ebbtide.adapters.kube.connection import Connection
from ebbtide.adapters.kube.declared import KubeDeclarations
from ebbtide.config.declared import policy_of_line, policy_of_spec
from ebbtide.model.policy import Declarer

ANNOTATED = {Declarer.DEPLOYMENT, Declarer.STATEFUL_SET}


@pytest.mark.parametrize(
    ("spec", "line", "kinds"),
    [
        (policy_of_spec, policy_of_line, ANNOTATED | {Declarer.SLEEP_POLICY}),
        (policy_of_spec, None, {Declarer.SLEEP_POLICY}),
        (None, policy_of_line, ANNOTATED),
    ],
)
def test_only_the_kinds_that_are_switched_on_are_read(spec: Any, line: Any, kinds: set[Declarer]) -> None:
    assert KubeDeclarations(cast(Connection, None), spec, line).kinds == kinds
