"""Game servers: what a pod's labels and annotations say of its tier, plan, players and status, and
whether a server that says so may be moved.

A pod that carries none of these keys is a general one; the drain rules alone judge it. An annotation
wins over a label of the same name, since it can change while the server runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.model.pod import Pod, PodPhase

TIER = "ebbtide.dev/tier"
PLAN = "ebbtide.dev/plan"
PLAYERS = "ebbtide.dev/players"
STATUS = "ebbtide.dev/status"
KEYS = (PLAN, PLAYERS, STATUS, TIER)
"""In order, so what is read of them is sorted."""

TIERS_MIB = {"micro": 2048, "small": 4096, "medium": 8192, "large": 16384, "xlarge": 32768}
TIER_PERCENT = 90
"""A request of at least this share of a tier's size, and at most its size, belongs to the tier."""
CUSTOM = "custom"
MOVABLE_TIERS = ("micro", "small", "medium")
MOST_MOVABLE_MIB = TIERS_MIB["medium"]
MOVABLE_PLANS = ("payperplay", "balanced")
PLANS = (*MOVABLE_PLANS, "reserved")
RUNNING, STARTING = "running", "starting"
UNKNOWN = -1
"""Players of a server that could not be counted."""


class ServerCause(StrEnum):
    """Why a game server stays where it is."""

    NO_SUCH_TIER = "no_such_tier"
    TIER = "tier"
    """Servers of this tier are not moved."""
    MEMORY = "memory"
    PLAN = "plan"
    """Servers of this plan, or without a plan, are not moved."""
    STATUS = "status"
    """It does not run, or is starting or stopping."""
    PLAYERS_UNCOUNTED = "players_uncounted"
    """They cannot be counted now."""
    PLAYERS_NO_NUMBER = "players_no_number"
    PLAYERS_UNSAID = "players_unsaid"
    PLAYERS = "players"
    """Somebody plays."""


@dataclass(frozen=True, slots=True)
class Stays:
    """Why a game server stays: the cause, and the same for people."""

    cause: ServerCause
    says: str


def labels_of(pod: Pod) -> Mapping[str, str]:
    """What the pod says of itself as a game server; nothing for a general pod."""
    found = {key: value for key, value in pod.labels if key in KEYS}
    return found | dict(pod.annotations)


def is_starting(pod: Pod, now: int, within_seconds: int) -> bool:
    """Whether the pod is being deployed: placed and not yet running, or so new that it is not yet ready."""
    if pod.terminating or pod.tied_to_node or not pod.node_name:
        return False
    if (
        pod.phase is PodPhase.PENDING
        or (STATUS, STARTING) in pod.annotations
        or (STATUS, STARTING) in pod.labels
    ):
        return True
    return pod.phase is PodPhase.RUNNING and not pod.ready and now - pod.created_at < within_seconds


def any_may_start(pods: tuple[Pod, ...]) -> bool:
    """Whether any of these pods on a node is starting, or is until some time passes."""
    return any(is_starting(pod, pod.created_at, 1) for pod in pods)


def tier_of(pod: Pod) -> str:
    """By its label, else by the memory it asks for. A request up to 10 % below a tier's size belongs to that
    tier (`2G` is 1907 MiB, and meant as 2 GB); any other size is custom."""
    named = labels_of(pod).get(TIER)
    if named is not None:
        return named
    asked = pod.requests.memory_mib
    fits = (tier for tier, mib in TIERS_MIB.items() if mib * TIER_PERCENT <= asked * 100 <= mib * 100)
    return next(fits, CUSTOM)


def why_not_movable(pod: Pod, players: Mapping[str, int]) -> Stays | None:
    """Why this game server stays where it is; None where it may move, and for a general pod."""
    labels = labels_of(pod)
    if not labels and pod.full_name not in players:
        return None
    tier = tier_of(pod)
    if tier not in TIERS_MIB and tier != CUSTOM:
        says = f"has the tier {tier!r}, which is none of {', '.join((*TIERS_MIB, CUSTOM))}"
        return Stays(ServerCause.NO_SUCH_TIER, says)
    if tier not in MOVABLE_TIERS:
        return Stays(ServerCause.TIER, f"is of tier {tier}; only {', '.join(MOVABLE_TIERS)} are moved")
    if pod.requests.memory_mib > MOST_MOVABLE_MIB:
        asks = f"asks for {pod.requests.memory_mib} MiB; at most {MOST_MOVABLE_MIB} MiB are moved"
        return Stays(ServerCause.MEMORY, asks)
    plan = labels.get(PLAN, "")
    if plan not in MOVABLE_PLANS:
        known = f"is on plan {plan}" if plan in PLANS else f"has the plan {plan!r}" if plan else "has no plan"
        return Stays(ServerCause.PLAN, f"{known}; only {' and '.join(MOVABLE_PLANS)} are moved")
    status = labels.get(STATUS, RUNNING)
    if status != RUNNING or pod.phase is not PodPhase.RUNNING:
        state = status if status != RUNNING else pod.phase.value
        return Stays(ServerCause.STATUS, f"is {state}; only what is {RUNNING} is moved")
    return _why_players_forbid(players.get(pod.full_name), labels.get(PLAYERS))


def _why_players_forbid(counted: int | None, noted: str | None) -> Stays | None:
    """Both are believed: unless all that is known says 0, somebody may be playing."""
    if counted is not None and counted < 0:
        says = "has players that cannot be counted now; only servers with 0 players are moved"
        return Stays(ServerCause.PLAYERS_UNCOUNTED, says)
    known = [] if counted is None else [counted]
    if noted is not None:
        if not (noted.isascii() and noted.isdigit()):
            says = f"has {noted!r} players, which is not a number"
            return Stays(ServerCause.PLAYERS_NO_NUMBER, says)
        known.append(int(noted))
    if not known:
        says = "does not say how many players it has; only servers with 0 players are moved"
        return Stays(ServerCause.PLAYERS_UNSAID, says)
    if max(known) > 0:
        return Stays(ServerCause.PLAYERS, f"has {max(known)} players; only servers with 0 players are moved")
    return None
