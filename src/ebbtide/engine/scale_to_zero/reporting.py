"""Updates the status of the objects that declare policies, once a round.

A status is written only if it changed. If a write is lost, or there was no time for it, the next round sees
that the status is outdated, so reporting has no state of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ebbtide.core.scale_to_zero import declared
from ebbtide.core.words import count_of
from ebbtide.engine.leased import Leased
from ebbtide.engine.scale_to_zero.context import PolicyContext
from ebbtide.errors import EbbtideError
from ebbtide.model.declared import Declaration, Readiness, Report
from ebbtide.model.idle import IdleState
from ebbtide.model.policy import Policy
from ebbtide.ports import Declarations

AT_ONCE = 100
"""Objects that are told together. The lease is renewed in between."""


@dataclass(slots=True)
class SeenDeclarations:
    """What one round knows of the objects and their policies."""

    declarations: Sequence[Declaration] = ()
    applied: dict[str, Policy] = field(default_factory=dict)
    """By origin."""
    refused: dict[str, tuple[Readiness, str]] = field(default_factory=dict)
    """By origin: why not."""


@dataclass(frozen=True, slots=True)
class _News:
    """What an object is to be told."""

    declaration: Declaration
    report: Report
    asks_ledger_of: Policy | None
    """The policy whose ledger may say something new."""


class Reporting:
    def __init__(self, context: PolicyContext) -> None:
        self._context = context
        self._store = context.ports.policies
        self._threads = max(1, context.ports.threads)

    def tell(self, seen: SeenDeclarations, leased: Leased) -> list[str]:
        """What went wrong, in sentences."""
        port = self._context.ports.declarations
        if port is None or not seen.declarations:
            return []
        states = {state.policy_id: state for state in self._store.list_states()}
        news = list(self._news(seen, states))
        if not news:
            return []

        def one(item: _News) -> str | None:
            # A slow API server must not hold the round past its lease: another runner would begin one.
            return self._tell(port, item) if leased.has_time() else None

        said: list[str | None] = []
        with ThreadPoolExecutor(self._threads) as pool:
            for first in range(0, len(news), AT_ONCE):
                if has_time(leased):
                    said.extend(pool.map(one, news[first : first + AT_ONCE]))
        left = len(news) - sum(1 for says in said if says is not None)
        objects = count_of(left, "object")
        late = f"there was no time to update the status of {objects}; the next round continues"
        return [*filter(None, said), *([late] if left else [])]

    def _news(self, seen: SeenDeclarations, states: Mapping[str, IdleState]) -> Iterator[_News]:
        """Without a question to the ledger: thousands of objects have nothing new most of the time."""
        now = self._context.now
        for one in seen.declarations:
            policy = seen.applied.get(one.ref.origin)
            state = states.get(policy.id) if policy is not None else None
            report, asks = None, None
            if policy is not None and state is not None:
                saved = one.told.saved if one.told is not None else None
                report = declared.report_of(one, policy, state, saved, now)
                asks = policy if declared.is_due(one.told, policy, state, now) else None
            if (refused := seen.refused.get(one.ref.origin)) is not None:
                report = declared.not_applied(report, one, *refused)
            if report is not None and (asks is not None or report != one.told):
                yield _News(one, report, asks)

    def _tell(self, port: Declarations, news: _News) -> str:
        one, report, policy = news.declaration, news.report, news.asks_ledger_of
        try:
            if policy is not None:
                now = self._context.now
                first, last = declared.first_day(policy.zone, now)
                days = self._store.list_days(policy.id, first, last)
                report = replace(report, saved=declared.saved_lately(policy, days, now))
            if report != one.told:
                port.tell(one, report)
        except EbbtideError as error:
            return f"{one.ref}: its status could not be updated: {error}"
        return ""


def has_time(leased: Leased) -> bool:
    """Thousands of new objects may take longer than a lease lasts."""
    if leased.half_over():
        with suppress(EbbtideError):
            leased.renew()
    return leased.has_time()
