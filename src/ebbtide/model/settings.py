"""Every setting that decisions and operations depend on, with the defaults users rely on.

Where each comes from (YAML key, environment variable) and what it may be is the business of
`ebbtide.config`; here they are plain values that are already checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.pod import WorkloadRef
from ebbtide.model.pool import Headroom, Pool, RemovalBudget


class Packer(StrEnum):
    PLAIN = "plain"
    """Plain Python alone."""
    HIGHS = "highs"
    """numpy and HiGHS, where there is enough to pack that they pay."""


STEP_SECONDS = 900
"""Demand is noted and expected in steps of this length."""
STEPS_A_DAY = 86_400 // STEP_SECONDS


@dataclass(frozen=True, slots=True)
class ForecastSettings:
    enabled: bool = False
    ahead_seconds: int = 1800
    """Room is there for what is expected within this time."""
    quantile: float = 0.9
    """How much of what may come is prepared for: demand stays at or below this in so many cases."""

    @property
    def steps(self) -> int:
        return max(1, -(-self.ahead_seconds // STEP_SECONDS))


NO_FORECAST = ForecastSettings()


@dataclass(frozen=True, slots=True)
class PoolDemand:
    """What was asked of a pool at the same time, without what comes and goes with its nodes."""

    pods: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0

    def plus(self, cpu_milli: int, memory_mib: int) -> PoolDemand:
        return PoolDemand(self.pods + 1, self.cpu_milli + cpu_milli, self.memory_mib + memory_mib)


NO_CONSOLIDATION = ConsolidationSettings()
LONGEST_REST_SECONDS = 86_400
"""A node that can never be drained is tried once a day, or as seldom as `node_rest_seconds` says."""
REFUSAL_KNOWN_SECONDS = 86_400
"""After its wait: an offer that is refused again within this time waits twice as long."""


class JudgedBy(StrEnum):
    """What makes a scale-down possible."""

    AVERAGE = "average"
    """The average CPU of all workers is low: the documents' rule."""
    NODE = "node"
    """A node by itself is empty or underused, whatever the others do."""


@dataclass(frozen=True, slots=True)
class Settings:
    cluster: str = "cluster"
    pools: tuple[Pool, ...] = ()

    cpu_up: float = 0.70
    cpu_down: float = 0.30
    pending_up_seconds: int = 180
    idle_down_seconds: int = 600
    cooldown_up_seconds: int = 300
    cooldown_down_seconds: int = 600
    min_workers: int = 2
    max_workers: int = 10
    max_batch_up: int = 2
    max_batch_down: int = 1
    batch_up_fraction: float = 0.0
    batch_down_fraction: float = 0.0
    """Shares of the workers: where one is more than the batch that is a count, it is the batch."""
    scale_down_by: JudgedBy = JudgedBy.AVERAGE
    underused_below: float = 0.50
    """Judged one by one, a node whose requests are below this share of it is underused."""
    settled_seconds: int = 0
    settled_rise: float = 0.10
    """Demand that rose by more than this share within that time is not settled: only empty nodes go, and
    those that have been underused for half of that time. 0 s: it always is."""
    pods_per_node: int = 10
    """How many pods a new node is taken to hold, only where their requests are unknown."""

    lock_ttl_seconds: int = 300
    spot_lock_ttl_seconds: int = 180
    daemon_lock_ttl_seconds: int = 30
    """Leases of a process that stays: short, and renewed for as long as it lives."""
    lease_margin_seconds: int = 10
    """No effect is started when less than this is left of the lease."""
    request_timeout_seconds: int = 30
    """The longest that one call to a cloud or a cluster can be in progress."""

    join_timeout_seconds: int = 600
    late_join_seconds: int = 0
    """Pods do not wait longer for a launched instance that is no node yet; 0: until it is reclaimed."""
    launch_timeout_seconds: int = 300
    """How long a launch without a definite answer is repeated before it is given up."""
    drain_timeout_seconds: int = 300
    drain_attempts: int = 3
    drain_retry_seconds: int = 30
    settle_seconds: int = 10
    """How long a node must have been drained before it is terminated: a pod that was just being bound
    when the node was cordoned has shown up by then."""
    stuck_seconds: int = 900
    spot_drain_seconds: int = 110
    rebalance_seconds: int = 900
    """How long a rebalance recommendation is worth acting on."""
    node_rest_seconds: int = 3600
    """How long a node that could not be drained is skipped; see `rest_seconds`."""
    backoff_seconds: int = 60
    backoff_max_seconds: int = 3600
    offer_rest_seconds: int = 600
    """How long a zone, market and type that had no capacity is asked for last."""
    gone_grace_seconds: int = 60
    """How long an instance, or the node of a new one, must be missing before that is believed."""
    orphan_grace_seconds: int = 900
    max_unclean_runs: int = 5

    budget_fraction: float = 0.10
    """Of all workers, or one: holds always, whatever `budgets` say."""
    budgets: tuple[RemovalBudget, ...] = ()
    headroom: tuple[Headroom, ...] = ()
    forecast: ForecastSettings = NO_FORECAST
    unready_fraction: float = 0.45
    unready_count: int = 3
    shrink_accepted_seconds: int = 600
    """How long a suddenly smaller cluster must be seen before it is believed."""
    metric_max_age_seconds: int = 180
    max_tick_gap_seconds: int = 300
    """A longer silence between two ticks is not idle time."""
    decision_log_seconds: int = 3600
    """A decision that only repeats the last one is logged again after this long."""
    log_retention_days: int = 90
    """How long log entries are kept; 0 is forever."""

    repair: bool = False
    """Whether workers that are unwell are replaced."""
    repair_after_seconds: int = 600
    repair_conditions: tuple[str, ...] = ()
    """Conditions, as `Type=Status`, that make a worker unwell although it is Ready."""
    replace_drifted: bool = False
    """Whether workers are replaced that are not what their pool would launch today."""

    movable_system_workloads: tuple[str, ...] = ()
    """kube-system workloads that may be moved, as `name` or `name-prefix*`."""
    evict_local_storage: bool = False
    consolidation: ConsolidationSettings = NO_CONSOLIDATION
    waking: tuple[WorkloadRef, ...] = ()
    """Workloads that are being woken: a pod of theirs that needs a node does not wait. Set by policies, not
    by the configuration."""

    awake_min_workers: int = 0
    """While some pools sleep: how many workers the others have left after one of theirs goes as idle. Set by
    policies, too."""

    packer: Packer = Packer.HIGHS
    """For launches and for consolidation; recorded with each decision, like every setting."""
    preferred_zones: tuple[str, ...] = ()
    """Where nodes are rather kept than elsewhere, the best first: the last tie-break of what to keep."""

    def zone_rank(self, zone: str) -> int:
        """0 for the most preferred zone; the same for all that are not named, after those that are."""
        known = self.preferred_zones
        return known.index(zone) if zone in known else len(known)

    def rest_seconds(self, failures: int) -> int:
        """How long nothing voluntary chooses a node after so many failed drains in a row."""
        doubled = self.node_rest_seconds << min(max(failures - 1, 0), 20)
        return max(self.node_rest_seconds, min(doubled, LONGEST_REST_SECONDS))

    def refused_seconds(self, times: int) -> int:
        """How long an offer is not asked for that the cloud refused for what it is, so often in a row."""
        doubled = self.offer_rest_seconds << min(max(times - 1, 0), 20)
        return max(self.offer_rest_seconds, min(doubled, LONGEST_REST_SECONDS))

    def batch_up(self, workers: int) -> int:
        """How many nodes one scale-up may launch in a cluster of so many workers."""
        # A share of all says: whatever is needed. A cluster without workers must be able to begin.
        if self.batch_up_fraction >= 1.0:
            return self.max_workers
        return max(self.max_batch_up, ceil(self.batch_up_fraction * workers))

    def batch_down(self, workers: int) -> int:
        return max(self.max_batch_down, int(self.batch_down_fraction * workers))

    def pool_named(self, name: str) -> Pool | None:
        for pool in self.pools:
            if pool.name == name:
                return pool
        return None
