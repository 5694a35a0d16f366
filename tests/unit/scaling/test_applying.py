"""Policies of the configuration at a start: applied, refused where they do not fit, and said where they have
left it."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from ebbtide.bootstrap.scaling import apply_policies
from ebbtide.config import Config
from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.core.scale_to_zero.policy_checks import PolicyProblem
from ebbtide.engine.scale_to_zero.policies import Policies, PolicyRefused
from ebbtide.errors import EbbtideError
from ebbtide.model.idle import Phase
from ebbtide.model.policy import FROM_CONFIGURATION, Schedule
from tests.policy_harness import PolicyHarness, make_policy, make_ref, policy_id

WEB = "{name: web, target: {workloads: [{name: web}]}, scale_to_zero: true}"
SHOP = "{name: shop, target: {workloads: [{name: shop}]}}"
GONE = (
    "policy web: no longer in ebbtide.yaml, but still active; "
    "`ebbtide policy delete web` ends it, `ebbtide policy apply -f` keeps it without the file"
)


def config_of(*policies: str) -> Config:
    return build_config(parse_document(f"policies: [{', '.join(policies)}]", "ebbtide.yaml"), {})


def harness_of(*names: str) -> PolicyHarness:
    """With policies that somebody made by hand."""
    return PolicyHarness(
        policies=tuple(make_policy(name, id=policy_id(n)) for n, name in enumerate(names, start=1))
    )


def book_of(harness: PolicyHarness, pools: tuple[str, ...] = ()) -> Policies:
    numbers = count(1)
    return Policies(harness.rows, harness.clock, lambda: f"book-{next(numbers):06d}", pools)


def test_a_start_applies_the_file_and_the_next_one_has_nothing_to_say() -> None:
    harness = harness_of()
    assert apply_policies(config_of(WEB, SHOP), harness.scaling) == [
        "policy web: created, as ebbtide.yaml says",
        "policy shop: created, as ebbtide.yaml says",
    ]
    versions = [policy.version for policy in harness.rows.list_policies()]
    assert apply_policies(config_of(WEB, SHOP), harness.scaling) == []
    assert [policy.version for policy in harness.rows.list_policies()] == versions
    less = WEB.replace("true", "false")
    assert apply_policies(config_of(less, SHOP), harness.scaling) == [
        "policy web: changed, as ebbtide.yaml says"
    ]


def test_a_policy_that_has_left_the_file_is_said_at_every_start_and_kept() -> None:
    harness = harness_of("by-hand")
    apply_policies(config_of(WEB, SHOP), harness.scaling)
    for _ in range(2):
        assert apply_policies(config_of(SHOP), harness.scaling) == [GONE]
    assert [policy.name for policy in harness.rows.list_policies()] == ["by-hand", "shop", "web"]
    book = book_of(harness)
    book.delete(book.find("web"))
    assert apply_policies(config_of(SHOP), harness.scaling) == []


def test_one_that_was_changed_by_hand_since_is_said_all_the_same() -> None:
    harness = harness_of()
    apply_policies(config_of(WEB), harness.scaling)
    book = book_of(harness)
    (change,) = book.plan([make_policy("web", max_replicas=4)])
    assert book.carry_out(change).origin == FROM_CONFIGURATION
    assert apply_policies(config_of(), harness.scaling) == [GONE]
    (taken,) = book.plan([make_policy("web", max_replicas=4)], origin="")
    assert (taken.says, book.carry_out(taken).origin) == ("unchanged", "")
    assert apply_policies(config_of(), harness.scaling) == []


def test_the_file_takes_over_what_was_made_by_hand_without_a_word_where_it_is_the_same() -> None:
    harness = harness_of()
    book = book_of(harness)
    (change,) = book.plan([config_of(WEB).policies[0].policy(policy_id(1), 0, 0, 0)])
    book.carry_out(change)
    assert apply_policies(config_of(WEB), harness.scaling) == []
    assert book.find("web").origin == FROM_CONFIGURATION


def test_a_policy_of_the_file_whose_target_another_has_is_not_applied_and_said() -> None:
    """Such as one that was renamed in the file."""
    harness = harness_of()
    apply_policies(config_of(WEB), harness.scaling)
    said = apply_policies(
        config_of(WEB.replace("name: web, target", "name: site, target"), SHOP), harness.scaling
    )
    assert said == [
        "policy site of ebbtide.yaml was not applied: target.workloads[0]: Deployment "
        "default/web is the target of policy web already; add it there, or disable or delete that policy",
        "policy shop: created, as ebbtide.yaml says",
        GONE,
    ]
    assert [policy.name for policy in harness.rows.list_policies()] == ["shop", "web"]


def test_what_left_the_file_while_asleep_can_still_be_woken() -> None:
    harness = PolicyHarness(policies=(make_policy(origin=FROM_CONFIGURATION),))
    harness.sleep()
    assert apply_policies(config_of(), harness.scaling) == [GONE]
    assert harness.phase() is Phase.ZERO


def test_two_may_swap_their_targets_in_one_file() -> None:
    harness = harness_of("a", "b")
    swapped = [make_policy("a", make_ref("b")), make_policy("b", make_ref("a"))]
    assert [change.problems for change in book_of(harness).plan(swapped)] == [(), ()]


def test_what_does_not_fit_is_neither_created_nor_put_in_place_of_another() -> None:
    harness = harness_of("web", "shop")
    book = book_of(harness, ("workers",))
    before = harness.rows.list_policies()
    with pytest.raises(PolicyRefused, match=r"target\.workloads\[0\]: Deployment default/web is the target"):
        book.create(make_policy("new", make_ref("web"), id=policy_id(7)))
    with pytest.raises(PolicyRefused, match="nothing was changed"):
        book.replace(make_policy("shop", make_ref("web"), id=policy_id(2), version=1))
    assert harness.rows.list_policies() == before
    assert book.replace(make_policy("web", id=policy_id(1), version=1, max_replicas=3)).version == 2


def test_what_was_disabled_counts_from_when_it_is_enabled() -> None:
    harness = harness_of()
    book, written = book_of(harness), harness.now
    off = book.create(make_policy("web", schedules=(Schedule("@daily", replicas=0),), enabled=False))
    harness.clock.sleep(3600)
    on = book.replace(replace(off, enabled=True))
    assert [each.written_at for each in (*off.schedules, *on.schedules)] == [written, written + 3600]
    harness.clock.sleep(3600)
    assert book.replace(replace(on, max_replicas=4)).schedules == on.schedules


def test_a_policy_that_conflicts_and_is_invalid_conflicts() -> None:
    """Its caller is told to look at the others (409) before it corrects the rest."""
    problems = [PolicyProblem(("name",), "is invalid"), PolicyProblem(("target",), "is taken", taken=True)]
    assert PolicyRefused("web", problems).taken
    assert not PolicyRefused("web", problems[:1]).taken


def test_a_policy_that_was_deleted_meanwhile_is_not_replaced() -> None:
    harness = harness_of("web")
    book = book_of(harness)
    (policy,) = harness.rows.list_policies()
    book.delete(policy)
    with pytest.raises(EbbtideError):
        book.replace(replace(policy, max_replicas=3))
    assert list(harness.rows.list_policies()) == []


def test_a_new_policy_begins_with_its_first_version_whatever_its_caller_says() -> None:
    book = book_of(harness_of())
    assert book.create(make_policy("new", make_ref("new"), id=policy_id(7), version=5)).version == 1


def test_a_policy_that_is_planned_again_as_it_is_changes_nothing() -> None:
    """A file knows neither when it was made nor since when its schedules count."""
    harness = harness_of()
    book = book_of(harness)
    nightly = make_policy("web", schedules=(Schedule("@daily", replicas=0),))
    made = book.create(nightly)
    harness.clock.sleep(3600)
    (change,) = book.plan([replace(nightly, created_at=5)])
    assert (change.kind, change.policy) == (None, made)


def test_a_schedule_of_an_earlier_version_keeps_counting_when_its_policy_is_changed() -> None:
    """Earlier versions did not note since when it counts."""
    harness = PolicyHarness(policies=(make_policy("web", schedules=(Schedule("@daily", replicas=0),)),))
    (policy,) = harness.rows.list_policies()
    harness.clock.sleep(3600)
    changed = book_of(harness).replace(replace(policy, max_replicas=4))
    assert changed.schedules[0].written_at == policy.updated_at


def test_a_schedule_that_is_changed_in_a_file_is_changed_in_the_policy() -> None:
    harness = harness_of()
    book = book_of(harness)
    book.create(make_policy("web", schedules=(Schedule("@daily", replicas=0),)))
    (change,) = book.plan([make_policy("web", schedules=(Schedule("0 20 * * *", replicas=0),))])
    (schedule,) = book.carry_out(change).schedules
    assert (schedule.cron, schedule.written_at) == ("0 20 * * *", harness.now)
