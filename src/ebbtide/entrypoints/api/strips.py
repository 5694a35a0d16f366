"""The last days of every policy: when it was awake, idle and asleep, who woke it, and what comes next."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from ebbtide.core.scale_to_zero.savings import open_stretch
from ebbtide.engine.scale_to_zero.context import read_stretch
from ebbtide.entrypoints.api.context import RouteContext
from ebbtide.entrypoints.api.guard import Needs
from ebbtide.entrypoints.api.scopes import Scope
from ebbtide.entrypoints.views.days import logged_between
from ebbtide.entrypoints.views.policy_schemas import (
    NextChangeShape,
    PieceShape,
    StripShape,
    StripsShape,
    WokenByShape,
)
from ebbtide.entrypoints.views.strips import next_change, strip_of, wakes_in
from ebbtide.model.events import PolicyStep
from ebbtide.model.ledger import Stretch
from ebbtide.model.log import LogKind
from ebbtide.model.policy import Policy
from ebbtide.narrate import fact_in

DAY_SECONDS = 86_400
MOST_POLICIES = 500


def router(desk: RouteContext) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/scaling", tags=["policies"])

    @routes.get("/strips", dependencies=[Depends(Needs(Scope.READ))])
    def strips(
        days: Annotated[int, Query(ge=1, le=31, description="How far back.")] = 7,
    ) -> StripsShape:
        """When each policy was awake, idle and asleep, who woke it, and its next scheduled change."""
        now = desk.now
        since = now - days * DAY_SECONDS
        stretches = _stretches(desk, since, now)
        wakes = _wakes(desk, since, now)
        policies = desk.policies.store.list_policies("", MOST_POLICIES)
        found = [_strip(desk, policy, since, stretches.get(policy.id, []), wakes) for policy in policies]
        return StripsShape(now=now, since=since, policies=found)

    return routes


def _strip(
    desk: RouteContext,
    policy: Policy,
    since: int,
    stretches: list[Stretch],
    wakes: dict[str, list[tuple[int, PolicyStep]]],
) -> StripShape:
    now, state = desk.now, desk.policies.store.find_state(policy.id)
    current = None if state is None else open_stretch(policy, state, now)
    known = [*stretches, current] if current is not None else stretches
    first = min([max(since, min(policy.created_at, now)), *(stretch.since for stretch in known)])
    following = next_change(policy, now)
    return StripShape(
        policy_id=policy.id,
        pieces=[
            PieceShape(state=piece.state, since=piece.since, until=piece.until)
            for piece in strip_of(known, max(first, since), now)
        ],
        wakes=[
            WokenByShape(at=woken.at, reason=woken.reason) for woken in wakes_in(wakes.get(policy.id, []))
        ],
        next_change=None if following is None else NextChangeShape(at=following.at, does=following.does),
    )


def _stretches(desk: RouteContext, since: int, now: int) -> dict[str, list[Stretch]]:
    """A stretch is logged when it ends, so all that touch the time are logged in it."""
    found: dict[str, list[Stretch]] = {}
    for entry in logged_between(desk.site.store, [LogKind.STRETCH], since, now):
        stretch = read_stretch(entry)
        found.setdefault(stretch.policy_id, []).append(stretch)
    return found


def _wakes(desk: RouteContext, since: int, now: int) -> dict[str, list[tuple[int, PolicyStep]]]:
    found: dict[str, list[tuple[int, PolicyStep]]] = {}
    for entry in reversed(list(logged_between(desk.site.store, [LogKind.WAKE], since, now))):
        step = fact_in(entry, PolicyStep)
        if step is not None:
            found.setdefault(entry.subject, []).append((entry.at, step))
    return found
