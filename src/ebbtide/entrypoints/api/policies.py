"""Policies: create, read, replace, delete, pause, keep up, activity that others report, and the last days of
each.
"""

from __future__ import annotations

import dataclasses
import uuid
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from ebbtide.config.policies import PolicyKeys
from ebbtide.core.scale_to_zero.savings import open_stretch
from ebbtide.engine.scale_to_zero.context import read_stretch
from ebbtide.entrypoints.api.guard import NeedsScope
from ebbtide.entrypoints.api.routing import RouteContext, etag, pack, seen_version, unpack
from ebbtide.entrypoints.api.site import Scope
from ebbtide.entrypoints.views.inputs import logged_between
from ebbtide.entrypoints.views.policies import next_change, strip_of, wakes_in
from ebbtide.entrypoints.views.policy_schemas import (
    ActivityBody,
    KeepUpBody,
    NextChangeShape,
    PausedBody,
    PieceShape,
    PoliciesShape,
    PolicyShape,
    StateShape,
    StripShape,
    StripsShape,
    WokenByShape,
)
from ebbtide.entrypoints.views.policy_shapes import state_shape
from ebbtide.model.events import PolicyStep
from ebbtide.model.idle import IdleState, Stretch
from ebbtide.model.log import LogKind
from ebbtide.model.policy import Policy
from ebbtide.narrate import fact_in

READ = [Depends(NeedsScope(Scope.READ))]
WAKE = [Depends(NeedsScope(Scope.WAKE))]
ADMIN = [Depends(NeedsScope(Scope.ADMIN))]


def router(context: RouteContext) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/scaling/policies", tags=["policies"])

    @routes.get("", dependencies=READ)
    def listed(
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
        page_token: Annotated[str, Query(max_length=500)] = "",
    ) -> PoliciesShape:
        """Policies by name, each with its state."""
        after = unpack("policies", page_token)
        found = context.policies.store.list_policies(after, limit + 1)
        shown = found[:limit]
        shapes = []
        for policy in shown:
            state = context.policies.store.find_state(policy.id) or IdleState(policy.id)
            shapes.append(context.shape(policy, state))
        more = pack("policies", shown[-1].name) if len(found) > limit else ""
        return PoliciesShape(now=context.now, policies=shapes, next_page_token=more)

    @routes.post("", dependencies=ADMIN, status_code=201)
    def create(body: PolicyKeys, response: Response) -> PolicyShape:
        """Create a policy; 409 where another has its name or its target."""
        created = context.policies.create(body.policy(str(uuid.uuid4()), 0, context.now, context.now))
        response.headers["ETag"] = etag(created)
        response.headers["Location"] = f"/api/v1/scaling/policies/{created.id}"
        return context.shape(*context.find(created.id))

    @routes.get("/{policy_id}", dependencies=READ)
    def one(policy_id: str, response: Response) -> PolicyShape:
        """One policy, with its version as ETag."""
        policy, state = context.find(policy_id)
        response.headers["ETag"] = etag(policy)
        return context.shape(policy, state)

    @routes.put("/{policy_id}", dependencies=ADMIN)
    def change(policy_id: str, body: PolicyKeys, request: Request, response: Response) -> PolicyShape:
        """Replace a policy. Needs If-Match with the version that was seen."""
        policy, _ = context.find(policy_id)
        version = seen_version(request, policy)
        wanted = body.policy(policy_id, version, policy.created_at, context.now)
        changed = context.policies.replace(dataclasses.replace(wanted, origin=policy.origin))
        response.headers["ETag"] = etag(changed)
        return context.shape(*context.find(policy_id))

    @routes.delete("/{policy_id}", dependencies=ADMIN, status_code=204)
    def delete(policy_id: str, request: Request) -> Response:
        """Delete a policy; its ledger and log stay. Needs If-Match. What sleeps is left at zero."""
        policy, _ = context.find(policy_id)
        seen_version(request, policy)
        context.policies.delete(policy)
        return Response(status_code=204)

    @routes.post("/{policy_id}/activity", dependencies=WAKE)
    def activity(policy_id: str, body: ActivityBody) -> StateShape:
        """Report that the target was used. What sleeps is woken by it."""
        context.find(policy_id)
        state = context.scaling.report_activity(policy_id, body.at, body.count)
        return _state(context, policy_id, state)

    @routes.post("/{policy_id}/keep-up", dependencies=WAKE)
    def keep_up(policy_id: str, body: KeepUpBody) -> StateShape:
        """Not to zero for so many seconds; 0 ends that. What sleeps is woken."""
        context.find(policy_id)
        return _state(context, policy_id, context.scaling.keep_up(policy_id, body.seconds))

    @routes.put("/{policy_id}/paused", dependencies=ADMIN)
    def paused(policy_id: str, body: PausedBody) -> StateShape:
        """A paused policy is left as it is; it can still be woken."""
        context.find(policy_id)
        return _state(context, policy_id, context.scaling.pause(policy_id, body.paused))

    return routes


def _state(context: RouteContext, policy_id: str, state: IdleState) -> StateShape:
    policy, _ = context.find(policy_id)
    return state_shape(policy, state, context.scaling.defaults, context.now, context.scaling.eta_of(state))


DAY_SECONDS = 86_400
MOST_POLICIES = 500


def strip_routes(desk: RouteContext) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/scaling", tags=["policies"])

    @routes.get("/strips", dependencies=[Depends(NeedsScope(Scope.READ))])
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
