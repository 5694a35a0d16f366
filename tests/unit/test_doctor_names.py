"""What `ebbtide doctor` says of machines that carry our name and have no node here."""

from __future__ import annotations

import pytest

from ebbtide.entrypoints.doctor.examine import without_a_node
from tests.builders import NOW, make_instance, make_instance_of, make_node, make_settings

SETTINGS = make_settings(cluster="shop", join_timeout_seconds=600)
NODE = make_node("a1")
OURS = make_instance_of(NODE)


@pytest.mark.parametrize(("age", "told"), [(599, False), (600, True)])
def test_a_machine_that_should_have_joined_by_now_is_named_with_what_to_do(age: int, told: bool) -> None:
    stray = make_instance("i-stray", key="op-0", launched_at=NOW - age)
    finding = without_a_node((OURS, stray), (NODE,), SETTINGS, NOW)
    assert (finding is not None) is told
    if finding is not None:
        assert not finding.ok
        assert ("i-stray" in finding.says, "i-a1" in finding.says) == (True, False)
        assert "cluster.name" in finding.fix


def test_machines_that_are_nodes_here_or_were_adopted_are_none_of_them() -> None:
    adopted = make_instance("i-old", key="", launched_at=NOW - 86_400)
    assert without_a_node((OURS, adopted), (NODE,), SETTINGS, NOW) is None
