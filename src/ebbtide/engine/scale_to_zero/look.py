"""What one round of the idle loop sees: signals and the cluster once for all policies, workloads on
demand, and what each target costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain

from ebbtide.core.scale_to_zero.activity import ActivityLook, idle_threshold, not_watched
from ebbtide.core.scale_to_zero.node_first import NodeRoom, ready_nodes
from ebbtide.core.scale_to_zero.rates import Rates, empty_room_price, rate_of, realised_share, with_realised
from ebbtide.core.words import a_while
from ebbtide.engine.scale_to_zero.context import PolicyContext
from ebbtide.engine.scale_to_zero.gating import Gating
from ebbtide.errors import EbbtideError, NotFound
from ebbtide.model.idle import NO_WHY, IdleState, Phase, PolicyWhy, Rate
from ebbtide.model.pod import Workload, WorkloadRef
from ebbtide.model.policy import Policy
from ebbtide.model.snapshot import ClusterView, Reading

UP = (Phase.ACTIVE, Phase.IDLE, Phase.FALLING)
NOWHERE = Rates(())
Seen = Workload | EbbtideError
"""A workload, or why it could not be read."""


@dataclass(slots=True)
class PolicyScene:
    """What one round sees."""

    now: int
    readings: Mapping[str, Reading]
    rates: Rates
    shares: Mapping[str, Decimal]
    held: str
    gap_seconds: int
    nodes: NodeRoom | None = None
    """Where sleepers would find room; none where the cluster could not be seen."""
    seen: dict[WorkloadRef, Seen] = field(default_factory=dict)


class Looking:
    def __init__(self, context: PolicyContext, gating: Gating) -> None:
        self._context = context
        self._gating = gating
        self._ports = context.ports

    def look(self, policies: Sequence[Policy], states: Iterable[IdleState]) -> PolicyScene:
        watched = (policy for policy in policies if not not_watched(policy))
        of_signals = (signal.query for policy in watched for signal in policy.signals)
        of_rules = (rule.metric for policy in policies if policy.enabled for rule in policy.rules)
        queries = sorted({query for query in chain(of_signals, of_rules) if query})
        found = self._ports.signals.read_values(queries) if queries else ()
        record = self._ports.store.load()
        now, settings = self._context.now, self._context.settings
        limit = settings.metric_max_age_seconds
        view = self._view()
        rates = Rates(settings.pools, view)
        sleeping = (state for state in states if state.phase is Phase.ZERO)
        room = empty_room_price(view, settings.pools) if view is not None else None
        return PolicyScene(
            now,
            {query: _fresh(reading, now, limit) for query, reading in zip(queries, found, strict=True)},
            rates,
            realised_share(sleeping, room) if room is not None else {},
            f"removals are paused ({record.pause_reason})" if record.paused else "",
            max(settings.max_tick_gap_seconds, 3 * self._context.defaults.check_interval_seconds),
            NodeRoom(view, record, settings, now) if view is not None else None,
        )

    def _view(self) -> ClusterView | None:
        if self._ports.cluster is None:
            return None
        with suppress(EbbtideError):
            return self._ports.cluster.read()
        return None

    def read_workloads(self, refs: Sequence[WorkloadRef], scene: PolicyScene) -> None:
        wanted = list(dict.fromkeys(refs))
        threads = min(self._ports.threads, len(wanted))
        if threads <= 1:
            scene.seen.update((ref, self._read(ref)) for ref in wanted)
            return
        with ThreadPoolExecutor(threads) as pool:
            parts = [wanted[number::threads] for number in range(threads)]
            for part, seen in zip(
                parts, pool.map(lambda refs: [self._read(ref) for ref in refs], parts), strict=True
            ):
                scene.seen.update(zip(part, seen, strict=True))

    def _read(self, ref: WorkloadRef) -> Seen:
        try:
            return self._ports.workloads.read(ref)
        except EbbtideError as error:
            return error

    def look_at(self, policy: Policy, state: IdleState, scene: PolicyScene) -> ActivityLook:
        there: list[Workload] = []
        missing: list[WorkloadRef] = []
        problem = ""
        for ref in policy.target.workloads:
            match scene.seen.get(ref):
                case Workload() as workload:
                    there.append(workload)
                case NotFound():
                    missing.append(ref)
                case EbbtideError() as error:
                    problem = f"{ref} could not be read: {error}"
                case _:
                    problem = f"{ref} was not read"
        pool, view = policy.target.pool, scene.rates.view
        return ActivityLook(
            scene.readings,
            tuple(there),
            tuple(missing),
            problem,
            self._rate(policy, state, there, scene),
            scene.held,
            scene.gap_seconds,
            self._gate(policy, state, scene) if there else NO_WHY,
            ready_nodes(view, pool) if pool and view is not None else None,
        )

    def _gate(self, policy: Policy, state: IdleState, scene: PolicyScene) -> PolicyWhy:
        """Asked only of those that may be about to sleep: it takes calls to the cluster."""
        quiet = scene.now - state.idle_since if state.idle_since is not None else 0
        near = quiet >= idle_threshold(policy, self._context.defaults) or any(
            schedule.sleeps for schedule in policy.schedules
        )
        return self._gating.why_not(policy) if near and state.phase in UP else NO_WHY

    def _rate(
        self, policy: Policy, state: IdleState, there: Sequence[Workload], scene: PolicyScene
    ) -> Rate | None:
        if not self._context.defaults.cost_tracking and policy.max_hourly_cost is None:
            return None
        if state.phase in UP:
            return rate_of(policy, there, scene.rates)
        own = rate_of(policy, (), NOWHERE) if policy.hourly_cost is not None else state.rate
        if state.phase is not Phase.ZERO or scene.rates.view is None:
            return own
        return with_realised(own, scene.shares)


def _fresh(reading: Reading, now: int, limit: int) -> Reading:
    age = now - reading.at
    if reading.value is None or age <= limit:
        return reading
    return Reading(None, reading.at, f"the last sample is {a_while(age)} old, more than {a_while(limit)}")
