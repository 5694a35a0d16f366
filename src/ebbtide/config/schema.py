"""Every key of the configuration: its type, its bounds, its default and a line that explains it.

The environment variable of a key is its path in upper case (`cpu_up` is `CPU_UP`, `store.url` is
`STORE_URL`). Defaults are those of `Settings`; a key ends in `_sec` where its field ends in `_seconds`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ebbtide.config.adapters import ADAPTERS, AdapterSections
from ebbtide.config.api import ADDRESS, ApiKeys
from ebbtide.config.nodes import BudgetKeys, ConsolidationKeys, ForecastKeys, HeadroomKeys
from ebbtide.config.policies import PolicyKeys
from ebbtide.config.pools import PoolKeys
from ebbtide.config.scale_to_zero import GateKeys, ScaleToZeroKeys
from ebbtide.config.section import Section
from ebbtide.model.record import LONGEST_LEASE_SECONDS
from ebbtide.model.settings import Settings

DEFAULTS = Settings()
YEAR_SECONDS = 31_536_000
MOST_NODES = 100_000
STORE_FORMS = "sqlite:///FILE, postgresql+psycopg://USER:PASSWORD@HOST/DATABASE or dynamodb://"


LEAST_SETTLE_SECONDS = 5
"""For so long after a cordon a scheduler with an old view of the node may still bind a pod to it. Terminated
before that, by a runner that froze after its last look, the node takes the pod along."""


LEAST_REPAIR_SECONDS = 60
"""A kubelet that restarts is silent for less."""
CONDITION_FORM = "Type or Type=Status, such as KernelDeadlock or DiskPressure=True"
_CONDITION = re.compile(r"([A-Za-z][A-Za-z0-9./_-]{0,252})(?:=(True|False|Unknown))?")


def seconds(default: int, says: str, least: int = 0) -> Any:
    return Field(default, ge=least, le=YEAR_SECONDS, description=says)


def lease(default: int, says: str) -> Any:
    return Field(default, ge=1, le=LONGEST_LEASE_SECONDS, description=says)


def count(default: int, says: str, least: int = 0) -> Any:
    return Field(default, ge=least, le=MOST_NODES, description=says)


def fraction(default: float, says: str) -> Any:
    return Field(default, ge=0, le=1, allow_inf_nan=False, description=says)


class WhenToScale(Section):
    cpu_up: float = fraction(DEFAULTS.cpu_up, "Scale up above this average CPU use of the workers.")
    cpu_down: float = fraction(DEFAULTS.cpu_down, "Scale down only below this average CPU use.")
    pending_up_sec: int = seconds(
        DEFAULTS.pending_up_seconds, "Scale up when pods have been pending this long."
    )
    idle_down_sec: int = seconds(
        DEFAULTS.idle_down_seconds, "Scale down only when the cluster has been idle this long."
    )
    cooldown_up_sec: int = seconds(
        DEFAULTS.cooldown_up_seconds, "Wait this long after any scaling before a scale-up."
    )
    cooldown_down_sec: int = seconds(
        DEFAULTS.cooldown_down_seconds, "Wait this long after any scaling before a scale-down."
    )
    metric_max_age_sec: int = seconds(
        DEFAULTS.metric_max_age_seconds, "A CPU reading older than this is unknown; unknown is not idle.", 1
    )
    max_tick_gap_sec: int = seconds(
        DEFAULTS.max_tick_gap_seconds, "A gap between two ticks longer than this does not count as idle.", 1
    )


class ProfileKeys(Section):
    profile: Literal["classic", "balanced", "eager"] = Field(
        "classic",
        description="A named set of values for the keys that are not set: see `docs/profiles.md`.",
    )


class HowMany(Section):
    min_workers: int = count(DEFAULTS.min_workers, "The minimum number of workers.")
    max_workers: int = count(DEFAULTS.max_workers, "The maximum number of workers.", 1)
    max_batch_up: int = count(DEFAULTS.max_batch_up, "The most nodes launched in one scale-up.", 1)
    max_batch_down: int = count(DEFAULTS.max_batch_down, "The most nodes removed in one scale-down.", 1)
    batch_up_fraction: float = fraction(
        DEFAULTS.batch_up_fraction,
        "`max_batch_up` as a share of the workers, if that is more; 1 means no limit.",
    )
    batch_down_fraction: float = fraction(
        DEFAULTS.batch_down_fraction,
        "`max_batch_down` as a share of the workers, if that is more.",
    )
    scale_down_by: Literal["average", "node"] = Field(
        "average",
        description="`average`: when the average CPU is low; `node`: when a node is empty or underused.",
    )
    underused_below: float = fraction(
        DEFAULTS.underused_below, "A node is underused if its pods request less than this share of it."
    )
    settled_sec: int = seconds(
        DEFAULTS.settled_seconds,
        "Nodes with pods stay if demand rose by more than `settled_rise` in this time; 0 turns it off.",
    )
    settled_rise: float = fraction(DEFAULTS.settled_rise, "A rise of demand up to this share is ignored.")
    pods_per_node: int = count(
        DEFAULTS.pods_per_node, "Pods a new node is assumed to hold, if pod requests are unknown.", 1
    )
    packer: Literal["highs", "plain"] = Field(
        DEFAULTS.packer.value,
        description="How plans are computed: `highs` needs the extra `solver`, `plain` needs nothing.",
    )
    preferred_zones: tuple[str, ...] = Field(
        DEFAULTS.preferred_zones,
        description="Zones whose nodes are kept first, best zone first; used as the last tie-break.",
        json_schema_extra={"allowed": "a list of names, such as [zone-a, zone-b]"},
    )


class LeaseKeys(Section):
    lock_ttl_sec: int = lease(DEFAULTS.lock_ttl_seconds, "How long the lease of a cluster lasts.")
    spot_lock_ttl_sec: int = lease(
        DEFAULTS.spot_lock_ttl_seconds,
        "The longest time a spot notice is leased; leases last 30 s and are renewed.",
    )
    daemon_lock_ttl_sec: int = lease(
        DEFAULTS.daemon_lock_ttl_seconds, "How long both leases last under `ebbtide run`, which renews them."
    )
    lease_margin_sec: int = seconds(
        DEFAULTS.lease_margin_seconds, "No action starts when less than this is left of the lease."
    )
    request_timeout_sec: int = seconds(
        DEFAULTS.request_timeout_seconds, "The longest that one call to a cloud or a cluster may take.", 1
    )


class LaunchingKeys(Section):
    join_timeout_sec: int = seconds(
        DEFAULTS.join_timeout_seconds, "A launched node that has not joined by then is reclaimed.", 1
    )
    late_join_sec: int = seconds(
        DEFAULTS.late_join_seconds,
        "Pods get another node if a launched one has not joined by then; 0: only when it is reclaimed.",
    )
    launch_timeout_sec: int = seconds(
        DEFAULTS.launch_timeout_seconds, "How long a launch without a definite answer is repeated.", 1
    )
    offer_rest_sec: int = seconds(
        DEFAULTS.offer_rest_seconds,
        "For how long a type in a zone that had no capacity is tried last. One that the cloud refuses for "
        "what it is, as with a wrong image, is skipped for so long, twice as long each time, up to a day.",
    )
    gone_grace_sec: int = seconds(
        DEFAULTS.gone_grace_seconds,
        "How long an instance, or the node of a new one, must be missing before it counts as gone.",
    )
    orphan_grace_sec: int = seconds(
        DEFAULTS.orphan_grace_seconds, "How long an instance without a node is left before it is reclaimed."
    )


class Draining(Section):
    drain_timeout_sec: int = seconds(DEFAULTS.drain_timeout_seconds, "One drain lasts at most this long.", 1)
    drain_attempts: int = Field(
        DEFAULTS.drain_attempts,
        ge=1,
        le=100,
        description="How many times a node is drained before Ebbtide gives up on it.",
    )
    drain_retry_sec: int = seconds(
        DEFAULTS.drain_retry_seconds, "Wait this long before a drain is tried again."
    )
    settle_sec: int = seconds(
        DEFAULTS.settle_seconds,
        "How long a node must have been drained before it is terminated; a scheduler that has not seen the "
        "cordon yet may bind a pod to it for some seconds.",
        LEAST_SETTLE_SECONDS,
    )
    stuck_sec: int = seconds(
        DEFAULTS.stuck_seconds, "A scale-down that takes longer is aborted, and its nodes are uncordoned.", 1
    )
    node_rest_sec: int = seconds(
        DEFAULTS.node_rest_seconds,
        "A node that could not be drained is skipped for this long. Each further failure in a row doubles "
        "it, up to a day; a node that is to be repaired is tried again after this time.",
    )
    movable_system_workloads: tuple[str, ...] = Field(
        DEFAULTS.movable_system_workloads,
        description="kube-system workloads that may be moved, as `name` or `name-prefix*`.",
    )
    evict_local_storage: bool = Field(
        DEFAULTS.evict_local_storage, description="Whether pods with local storage may be evicted."
    )


def _condition(value: Any) -> str:
    """`Type` means `Type=True`."""
    found = _CONDITION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"not a condition; allowed: {CONDITION_FORM}")
    if found[1] == "Ready":
        raise ValueError("is always looked at: a worker that is not Ready is unwell; list other conditions")
    return f"{found[1]}={found[2] or 'True'}"


class Replacing(Section):
    repair: bool = Field(
        DEFAULTS.repair, description="Whether unhealthy workers are replaced; see `docs/replacing.md`."
    )
    repair_after_sec: int = seconds(
        DEFAULTS.repair_after_seconds,
        "A worker is unhealthy if it is not Ready, or reports a condition below, for this long.",
        LEAST_REPAIR_SECONDS,
    )
    repair_conditions: tuple[Annotated[str, BeforeValidator(_condition)], ...] = Field(
        DEFAULTS.repair_conditions,
        description="Node conditions that make a Ready worker unhealthy.",
        json_schema_extra={"allowed": f"a list of {CONDITION_FORM}"},
    )
    replace_drifted: bool = Field(
        DEFAULTS.replace_drifted,
        description="Whether workers are replaced that differ from what their pool launches today.",
    )


class SpotKeys(Section):
    spot_drain_sec: int = seconds(
        DEFAULTS.spot_drain_seconds, "Time to drain a node after its interruption notice.", 1
    )
    rebalance_sec: int = seconds(
        DEFAULTS.rebalance_seconds, "How long a rebalance recommendation is worth acting on.", 1
    )


class SafetyGates(Section):
    budget_fraction: float = fraction(
        DEFAULTS.budget_fraction, "At most this share of the workers (or 1) is removed at a time."
    )
    unready_fraction: float = fraction(
        DEFAULTS.unready_fraction, "Removals stop when a larger share of the nodes is not ready..."
    )
    unready_count: int = count(DEFAULTS.unready_count, "...and more nodes than this are not ready.")
    shrink_accepted_sec: int = seconds(
        DEFAULTS.shrink_accepted_seconds,
        "How long a cluster must look suddenly smaller before that is accepted as real.",
    )
    backoff_sec: int = seconds(
        DEFAULTS.backoff_seconds, "Wait after a failed operation that removed nothing; doubles each time.", 1
    )
    backoff_max_sec: int = seconds(DEFAULTS.backoff_max_seconds, "The longest such wait.", 1)
    max_unclean_runs: int = Field(
        DEFAULTS.max_unclean_runs,
        ge=1,
        le=1000,
        description="An operation that crashes its runner this often is set aside, with an alarm.",
    )


class Running(Section):
    interval_sec: int = seconds(60, "Time between two ticks of `ebbtide run`.", 1)
    decision_log_sec: int = seconds(
        DEFAULTS.decision_log_seconds, "A decision that only repeats the last is logged again after this."
    )
    log_retention_days: int = Field(
        DEFAULTS.log_retention_days,
        ge=0,
        le=36_500,
        description="Log entries are deleted after this many days; 0 keeps them forever.",
        json_schema_extra={"allowed": "a whole number of days from 0 to 36500"},
    )
    log_format: Literal["plain", "json"] = Field("plain", description="Format of the messages on stderr.")
    metrics_addr: str = Field(
        "127.0.0.1:9808",
        pattern=ADDRESS,
        description="Where `ebbtide run` serves `/metrics`, `/healthz` and `/readyz`.",
        json_schema_extra={"allowed": "HOST:PORT, such as 0.0.0.0:9808, or off"},
    )
    state_table: str = Field(
        "k3s-autoscaler-state",
        min_length=1,
        description="DynamoDB table of the record; not used by SQL stores.",
    )
    logs_table: str = Field(
        "k3s-autoscaler-logs", min_length=1, description="DynamoDB table of the log; not used by SQL stores."
    )


class ClusterKeys(Section):
    name: str = Field(
        DEFAULTS.cluster,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        description="Name of the cluster: key of its record and tag of its instances. No two clusters of an "
        "account have the same.",
        json_schema_extra={"allowed": "letters, digits, -, _ and ., 63 at most"},
    )
    kind: Literal["simulator", "kubernetes"] = Field(
        "simulator", description="Which kind of cluster is scaled."
    )
    file: str = Field(
        "ebbtide-simulated.json",
        min_length=1,
        description="Where the simulated cluster is kept between runs.",
    )
    kubeconfig: str = Field(
        "",
        description="Kubeconfig. Default: KUBECONFIG, else ~/.kube/config, else the pod's service account.",
        json_schema_extra={"allowed": "the path of a file"},
    )
    context: str = Field("", description="Context in the kubeconfig. Default: its current context.")


class StoreKeys(Section):
    url: str = Field(
        "sqlite:///ebbtide.db",
        min_length=1,
        description="Where the record and the log are kept.",
        json_schema_extra={"allowed": STORE_FORMS},
    )


class PricesKeys(Section):
    file: str = Field(
        "",
        description="Price file, whose prices win over the built-in ones; "
        "else `ebbtide-prices.yaml` next to the configuration, where there is one.",
        json_schema_extra={"allowed": "the path of a file as `ebbtide prices update` writes it"},
    )


class Document(
    ProfileKeys,
    WhenToScale,
    HowMany,
    LeaseKeys,
    LaunchingKeys,
    Draining,
    Replacing,
    SpotKeys,
    SafetyGates,
    Running,
    AdapterSections,
):
    """The whole of `ebbtide.yaml`."""

    cluster: ClusterKeys = ClusterKeys()
    store: StoreKeys = StoreKeys()
    prices: PricesKeys = PricesKeys()
    api: ApiKeys = ApiKeys()
    consolidation: ConsolidationKeys = ConsolidationKeys()
    forecast: ForecastKeys = ForecastKeys()
    scale_to_zero: ScaleToZeroKeys = ScaleToZeroKeys()
    gate: GateKeys = GateKeys()
    budgets: tuple[BudgetKeys, ...] = Field(
        (), description="How many workers may leave at a time, in addition to `budget_fraction`; see below."
    )
    headroom: tuple[HeadroomKeys, ...] = Field(
        (), description="Room that is kept free for future pods, without placeholder pods; see below."
    )
    pools: tuple[PoolKeys, ...] = Field(
        (), description="Groups of nodes that may be launched and removed; see below."
    )
    policies: tuple[PolicyKeys, ...] = Field(
        (), description="What is scaled to zero, by rules or by schedules; see below."
    )


SECTIONS: tuple[tuple[str, type[Section]], ...] = (
    ("Profile", ProfileKeys),
    ("When to scale", WhenToScale),
    ("How many", HowMany),
    ("Lease", LeaseKeys),
    ("Launching", LaunchingKeys),
    ("Draining", Draining),
    ("Replacing", Replacing),
    ("Spot", SpotKeys),
    ("Safety gates", SafetyGates),
    ("Running", Running),
)
NESTED: tuple[tuple[str, type[Section]], ...] = (
    ("cluster", ClusterKeys),
    ("store", StoreKeys),
    ("prices", PricesKeys),
    ("api", ApiKeys),
    ("consolidation", ConsolidationKeys),
    ("forecast", ForecastKeys),
    ("scale_to_zero", ScaleToZeroKeys),
    ("gate", GateKeys),
    *ADAPTERS,
)
