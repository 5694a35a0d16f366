"""How long a wake still takes, as far as this gate knows: what pages, kicks and `Retry-After` say."""

from __future__ import annotations

from ebbtide.gate.eta import Expects
from ebbtide.gate.held import Held
from ebbtide.gate.judge import Heard
from ebbtide.gate.knocking import Knocker
from ebbtide.gate.routes import Route

RETRY_AFTER_SECONDS = 30
"""Where nothing is known of how long it takes."""
OVERDUE_SECONDS = 5


class Outlook:
    def __init__(self, knocker: Knocker, expects: Expects) -> None:
        self._knocker = knocker
        self._expects = expects

    def heard(self, held: Held, route: Route) -> Heard:
        """A connection as its judge sees it."""
        waking = self._knocker.waking(route.policy_id)
        expected = self._expects(route.policy_id)
        return Heard(
            head=held.head,
            whole=held.whole,
            source=held.source,
            policy=route.policy,
            eta_seconds=self.eta_seconds(route.policy_id),
            waking=waking is not None,
            waited_seconds=waking.waited_seconds if waking is not None else 0,
            needs_node=expected.needs_node if expected is not None else None,
            failing=self._knocker.failing(route.policy_id),
        )

    def eta_seconds(self, policy_id: str) -> int:
        """Of the wake in progress, or of one that would begin now; 0: not known, or longer than expected."""
        waking = self._knocker.waking(policy_id)
        if waking is not None:
            return waking.eta_seconds
        expected = self._expects(policy_id)
        return expected.seconds if expected is not None else 0

    def retry_after(self, policy_id: str) -> int:
        overdue = self._knocker.waking(policy_id) is not None
        return self.eta_seconds(policy_id) or (OVERDUE_SECONDS if overdue else RETRY_AFTER_SECONDS)

    def why_not_awake(self, route: Route) -> str:
        failing = self._knocker.failing(route.policy_id)
        why = "the wake could not be recorded" if failing else "it is not awake yet"
        return f"{route.policy} was asked to wake, and {why}"
