"""What a patch of a node carries: who signed it, on which version, and everything of others as it was."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from ebbtide.adapters.kube.wire import Meta, NodeSpec, WireNode, WireTaint
from ebbtide.adapters.kube.writer import (
    REMEMBERED,
    Patch,
    plan_cordon,
    plan_labels,
    plan_soft_taint,
    plan_uncordon,
)
from ebbtide.errors import NotOurs
from ebbtide.model import names
from ebbtide.model.effect import Cordon, SoftTaint, Uncordon
from ebbtide.model.snapshot import LEAVING

THEIRS = WireTaint("dedicated", "NoSchedule", "games", "2026-01-01T00:00:00Z")
OURS = WireTaint(LEAVING.key, LEAVING.effect)
TAINT, CORDON, UNCORDON = SoftTaint("w1", "u1", "op"), Cordon("w1", "u1", "op"), Uncordon("w1", "u1", "op")


def wire(*taints: WireTaint, cordoned: bool = False, uid: str = "u1", **annotations: str) -> WireNode:
    keys = {"owner": names.OWNER, "token": names.TOKEN, "stage": names.STAGE, "fences": names.FENCES}
    kept = {keys[name]: value for name, value in annotations.items()}
    meta = Meta("w1", uid, resource_version="77", annotations=kept or None)
    return WireNode(meta, NodeSpec(cordoned or None, list(taints) or None))


def signed(*taints: WireTaint, cordoned: bool = True, token: int = 5, fences: str = "") -> WireNode:
    """By operation `op`."""
    more = {} if cordoned else {"stage": names.TAINTED}
    return wire(
        *taints,
        cordoned=cordoned,
        owner="op",
        token=str(token),
        **({"fences": fences} if fences else {}),
        **more,
    )


def made(patch: Patch | None) -> dict[str, Any]:
    assert patch is not None
    return patch


def annotations_of(patch: Patch | None) -> dict[str, Any]:
    found: dict[str, Any] = made(patch)["metadata"]["annotations"]
    return found


EVERY = [
    (plan_soft_taint, TAINT, wire(THEIRS)),
    (plan_cordon, CORDON, wire(THEIRS)),
    (plan_uncordon, UNCORDON, signed(THEIRS, OURS)),
]


@pytest.mark.parametrize(("plan", "effect", "node"), EVERY)
def test_every_patch_stands_or_falls_by_the_version_and_the_uid_that_were_seen(
    plan: Any, effect: Any, node: WireNode
) -> None:
    meta = made(plan(node, effect, 5))["metadata"]
    assert (meta["uid"], meta["resourceVersion"]) == ("u1", "77")


def test_labels_are_added_on_the_version_that_was_seen() -> None:
    patch = plan_labels(wire(), "w1", "u1", {names.POOL: "general", "team": "a"})
    assert patch == {"metadata": {"resourceVersion": "77", "labels": {names.POOL: "general", "team": "a"}}}


def test_the_taints_of_others_are_sent_back_as_they_were() -> None:
    theirs = {
        "key": "dedicated",
        "effect": "NoSchedule",
        "value": "games",
        "timeAdded": "2026-01-01T00:00:00Z",
    }
    ours = {"key": LEAVING.key, "effect": LEAVING.effect}
    assert made(plan_soft_taint(wire(THEIRS), TAINT, 5))["spec"] == {"taints": [theirs, ours]}
    assert made(plan_uncordon(signed(THEIRS, OURS), UNCORDON, 5))["spec"] == {
        "taints": [theirs],
        "unschedulable": None,
    }
    assert "taints" not in made(plan_cordon(wire(THEIRS), CORDON, 5))["spec"]


def test_our_taint_is_not_there_twice_and_none_is_left_where_it_was_the_only_one() -> None:
    again = plan_soft_taint(signed(OURS, cordoned=False, token=4), TAINT, 5)
    assert len(made(again)["spec"]["taints"]) == 1
    assert made(plan_uncordon(signed(OURS, cordoned=False), UNCORDON, 5))["spec"] == {"taints": None}


def test_a_taint_says_that_it_is_no_cordon_yet_and_a_cordon_that_it_is_one() -> None:
    tainted = annotations_of(plan_soft_taint(wire(), TAINT, 5))
    assert (tainted[names.OWNER], tainted[names.TOKEN], tainted[names.STAGE]) == ("op", "5", names.TAINTED)
    cordoned = annotations_of(plan_cordon(signed(OURS, cordoned=False), CORDON, 5))
    assert (cordoned[names.OWNER], cordoned[names.TOKEN], cordoned[names.STAGE]) == ("op", "5", None)
    assert made(plan_cordon(wire(), CORDON, 5))["spec"] == {"unschedulable": True}
    below = annotations_of(plan_soft_taint(signed(cordoned=True), TAINT, 5))
    assert below[names.STAGE] is None, "it is cordoned already"


def test_what_is_given_back_is_no_longer_signed_and_a_taint_alone_lifts_no_cordon() -> None:
    cleared = annotations_of(plan_uncordon(signed(OURS), UNCORDON, 5))
    assert [cleared[name] for name in (names.OWNER, names.TOKEN, names.STAGE)] == [None] * 3
    lifted = made(plan_uncordon(signed(OURS, cordoned=False), UNCORDON, 5))["spec"]
    assert "unschedulable" not in lifted


def test_what_is_done_already_is_not_done_again_but_a_new_token_signs_again() -> None:
    assert plan_soft_taint(signed(OURS, cordoned=False), TAINT, 5) is None
    assert plan_cordon(signed(), CORDON, 5) is None
    assert plan_uncordon(wire(), UNCORDON, 5) is None
    assert annotations_of(plan_soft_taint(signed(OURS, cordoned=False), TAINT, 6))[names.TOKEN] == "6"
    assert annotations_of(plan_cordon(signed(), CORDON, 6))[names.TOKEN] == "6"
    assert plan_soft_taint(signed(cordoned=False), TAINT, 5) is not None, "signed, but the taint is missing"
    assert plan_cordon(signed(OURS, cordoned=False), CORDON, 5) is not None, "signed, but not cordoned"
    assert plan_labels(_labelled("general"), "w1", "u1", {names.POOL: "general"}) is None


def _labelled(pool: str) -> WireNode:
    labels = msgspec.Raw(json.dumps({names.POOL: pool}).encode())
    return WireNode(Meta("w1", "u1", resource_version="77", labels=labels))


@pytest.mark.parametrize(("plan", "effect"), [(plan_soft_taint, TAINT), (plan_cordon, CORDON)])
def test_what_a_person_cordoned_is_left_alone(plan: Any, effect: Any) -> None:
    with pytest.raises(NotOurs, match="cordoned by a person"):
        plan(wire(cordoned=True), effect, 5)
    with pytest.raises(NotOurs, match="cordoned by a person"):
        plan(wire(cordoned=True, owner="op", token="5", stage=names.TAINTED), effect, 5)


def test_a_cordon_that_nobody_signed_is_not_lifted() -> None:
    with pytest.raises(NotOurs, match="cordoned by a person"):
        plan_uncordon(wire(cordoned=True), UNCORDON, 5)


@pytest.mark.parametrize(("plan", "effect", "_"), EVERY)
def test_another_node_another_operation_and_an_older_token_are_refused(
    plan: Any, effect: Any, _: Any
) -> None:
    with pytest.raises(NotOurs, match="now has UID u2, not u1"):
        plan(wire(uid="u2"), effect, 5)
    with pytest.raises(NotOurs, match="belongs to operation other"):
        plan(wire(owner="other", token="1"), effect, 5)
    with pytest.raises(NotOurs, match="signed with token 6, which is above 5"):
        plan(signed(OURS, token=6), effect, 5)
    with pytest.raises(NotOurs, match="signed with token 9, which is above 5"):
        plan(wire(fences='{"op": 9}'), effect, 5)
    with pytest.raises(NotOurs, match="signed with token 9, which is above 5"):
        plan(signed(OURS, token=4, fences='{"op": 9}'), effect, 5)
    with pytest.raises(NotOurs, match="is not ours: remove it"):
        plan(wire(fences="[1]"), effect, 5)


def test_the_fences_outlive_the_owner_and_remember_the_last_operations() -> None:
    before = {f"op-{n}": n for n in range(REMEMBERED)}
    fences = json.loads(annotations_of(plan_cordon(wire(fences=json.dumps(before)), CORDON, 5))[names.FENCES])
    assert fences == {**{f"op-{n}": n for n in range(1, REMEMBERED)}, "op": 5}
    known = json.dumps({"op": 3, "later": 4})
    again = json.loads(annotations_of(plan_cordon(wire(fences=known), CORDON, 5))[names.FENCES])
    assert list(again.items()) == [("later", 4), ("op", 5)], "the one that signs is the newest"
    released = annotations_of(plan_uncordon(signed(OURS, token=5), UNCORDON, 5))
    assert json.loads(released[names.FENCES]) == {"op": 5}


def test_a_node_of_another_pool_or_another_uid_is_not_adopted() -> None:
    with pytest.raises(NotOurs, match="gone, or another has its name"):
        plan_labels(None, "w1", "u1", {names.POOL: "general"})
    with pytest.raises(NotOurs, match="gone, or another has its name"):
        plan_labels(wire(uid="u2"), "w1", "u1", {names.POOL: "general"})
    with pytest.raises(NotOurs, match="in pool games by now"):
        plan_labels(_labelled("games"), "w1", "u1", {names.POOL: "general"})
