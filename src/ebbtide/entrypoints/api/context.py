"""What routes share: the ports, finding a policy, versions as ETags, days as bounds, and pages of a list,
each with an opaque token for the next one.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass

from fastapi import Request

from ebbtide.engine.scale_to_zero.policies import Policies
from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.entrypoints.api.problems import Problem
from ebbtide.entrypoints.api.site import Site
from ebbtide.entrypoints.views import days
from ebbtide.entrypoints.views.policy_schemas import PolicyShape
from ebbtide.entrypoints.views.policy_shapes import policy_shape
from ebbtide.entrypoints.views.texts import why_not_plain
from ebbtide.model.idle import IdleState
from ebbtide.model.policy import Policy


@dataclass(frozen=True, slots=True)
class RouteContext:
    site: Site
    scaling: Scaling
    policies: Policies

    @property
    def now(self) -> int:
        return int(self.site.clock.now())

    def find(self, policy_id: str) -> tuple[Policy, IdleState]:
        policy = None if why_not_plain(policy_id) else self.policies.store.find_policy(policy_id)
        state = self.policies.store.find_state(policy_id) if policy else None
        if policy is None or state is None:
            raise Problem(404, f"there is no policy {policy_id!r}; nothing was changed")
        return policy, state

    def shape(self, policy: Policy, state: IdleState) -> PolicyShape:
        return policy_shape(policy, state, self.scaling.defaults, self.now, self.scaling.eta_of(state))


def etag(policy: Policy) -> str:
    return f'"{policy.version}"'


def seen_version(request: Request, policy: Policy) -> int:
    """The version that the caller saw, from `If-Match`, to prevent lost updates."""
    given = request.headers.get("if-match", "")
    if not given:
        detail = "say with If-Match which version you saw (the ETag of the policy); nothing was changed"
        raise Problem(428, detail)
    wanted = [each.strip() for each in given.split(",")]
    if "*" in wanted or etag(policy) in wanted:
        return policy.version
    detail = f"it is at version {etag(policy)} and you saw {given}; nothing was changed: read it again"
    raise Problem(412, detail, headers={"ETag": etag(policy)})


def bounds(first: str, last: str, now: int) -> tuple[str, str, str, str]:
    """As `days.bounds`; a day that is none is a problem that names its field."""
    if wrong := days.wrong_day(first, last):
        field, says = wrong
        raise Problem(422, f"{field}: {says}", [{"field": field, "says": says}])
    return days.bounds(first, last, now)


def pack(kind: str, last: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([kind, last]).encode()).decode().rstrip("=")


def unpack(kind: str, token: str) -> str:
    """Where the page begins; empty for the first."""
    if not token:
        return ""
    try:
        found = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise _unknown() from error
    match found:
        # A store takes no NUL and no half of a surrogate pair, and no token of ours has either.
        case [name, str(last)] if name == kind and not why_not_plain(last):
            return last
    raise _unknown()


def _unknown() -> Problem:
    says = "is not a page token of this list: take `next_page_token` of the page before"
    return Problem(422, f"page_token {says}", [{"field": "page_token", "says": says}])
