"""What routes about policies share: the doors, finding a policy, versions as ETags, days as bounds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from fastapi import Request

from ebbtide.engine.policies import Policies
from ebbtide.engine.scaling import Scaling
from ebbtide.entrypoints.api.problems import Problem
from ebbtide.entrypoints.api.scaling_shapes import PolicyShape
from ebbtide.entrypoints.api.scaling_telling import policy_shape
from ebbtide.entrypoints.api.site import Site
from ebbtide.model.idle import IdleState
from ebbtide.model.policy import Policy

DEFAULT_DAYS = 30


@dataclass(frozen=True, slots=True)
class Desk:
    site: Site
    scaling: Scaling
    policies: Policies

    @property
    def now(self) -> int:
        return int(self.site.clock.now())

    def find(self, policy_id: str) -> tuple[Policy, IdleState]:
        policy = self.policies.store.find_policy(policy_id)
        state = self.policies.store.find_state(policy_id) if policy else None
        if policy is None or state is None:
            raise Problem(404, f"there is no policy {policy_id!r}; nothing was changed")
        return policy, state

    def shape(self, policy: Policy, state: IdleState) -> PolicyShape:
        return policy_shape(policy, state, self.scaling.defaults, self.now)


def etag(policy: Policy) -> str:
    return f'"{policy.version}"'


def seen_version(request: Request, policy: Policy) -> int:
    """The version that the caller saw, of `If-Match`: who changes what he has not seen is refused."""
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
    """First and last day, the name of the period, and which day was yesterday, in UTC."""
    today = datetime.fromtimestamp(now, UTC).date()
    yesterday = (today - timedelta(days=1)).isoformat()
    if not first and not last:
        start = today - timedelta(days=DEFAULT_DAYS - 1)
        return start.isoformat(), "", f"last_{DEFAULT_DAYS}_days", yesterday
    for name, value in (("from", first), ("to", last)):
        if value and not _is_day(value):
            says = f"{value!r} is no day; write it as 2026-01-31"
            raise Problem(422, f"{name}: {says}", [{"field": name, "says": says}])
    if first and last and first > last:
        says = f"{first} is after {last}"
        raise Problem(422, f"from: {says}", [{"field": "from", "says": says}])
    return first, last, f"{first or 'the beginning'}_to_{last or 'today'}".replace(" ", "_"), yesterday


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
