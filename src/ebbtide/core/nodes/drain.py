"""How many nodes may be removed at a given time, and which pods of a node may be evicted and why not. The
rules about pods are ordered; the first that applies decides.

    skipped       finished, mirror, DaemonSet                      they do not keep a node from going
    waited for    already terminating, disruption budget used up   they may resolve by themselves
    blocked       critical, kube-system, do-not-disrupt, not safe to evict, a game server that may not be
                  moved, bare, local storage, not understood,
                  under several budgets                            no eviction is tried

The rule about game servers holds for every voluntary eviction (row 30); only an interruption, which would
take the server anyway, evicts regardless.

A node is drained when only skipped pods are left on it, and no volume of a pod that left is still attached.

Of the budgets that apply, the most restrictive counts. A budget applies to a removal of one of its reasons
while its window is open. All removals in progress count against it, whatever their reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.core.consolidation.game_servers import why_not_movable
from ebbtide.core.schedule import is_open
from ebbtide.model.effect import Evict
from ebbtide.model.operation import NO_OBSTACLE, Obstacle, RemovalCause
from ebbtide.model.pod import Budget, Labels, LabelSelector, Pod, SelectorOperator, matches
from ebbtide.model.pool import Allowance, RemovalBudget, RemovalReason
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node

HOUR, MINUTE = 3600, 60


def allowed(
    budgets: Iterable[RemovalBudget],
    pool: str,
    reason: RemovalReason,
    worker_count: int,
    leaving_count: int,
    now: int,
) -> Allowance:
    """How many more of `worker_count` workers may go, where `leaving_count` are on their way already.

    `pool` names whose budgets these are; empty for those of the whole cluster.
    """
    whose = f"pool {pool}" if pool else "the cluster"
    applying = [budget for budget in budgets if applies(budget, reason, now)]
    if not applying:
        return Allowance(max(0, worker_count - leaving_count), f"no budget of {whose} limits it now")
    tightest = min(applying, key=lambda budget: limit_of(budget, worker_count))
    limit = min(limit_of(tightest, worker_count), worker_count)
    says = f"{leaving_count} of at most {limit} are leaving; budget of {whose}: {described(tightest)}"
    return Allowance(max(0, limit - leaving_count), says)


def applies(budget: RemovalBudget, reason: RemovalReason, now: int) -> bool:
    return (not budget.reasons or reason in budget.reasons) and is_active(budget, now)


def is_active(budget: RemovalBudget, now: int) -> bool:
    return budget.window is None or is_open(budget.window, now)


def limit_of(budget: RemovalBudget, worker_count: int) -> int:
    return -(-budget.nodes * worker_count // 100) if budget.percent else budget.nodes


def described(budget: RemovalBudget) -> str:
    """The budget in words, as it was configured."""
    parts = [f"{budget.nodes}%" if budget.percent else f"{budget.nodes} nodes"]
    if budget.reasons:
        parts.append(f"for {', '.join(budget.reasons)}")
    if window := budget.window:
        parts.append(f"from {window.cron!r} in {window.zone} for {_span(window.duration_seconds)}")
    return " ".join(parts)


def _span(seconds: int) -> str:
    hours, rest = divmod(seconds, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    parts = [f"{n}{unit}" for n, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if n]
    return "".join(parts)


CRITICAL_CLASSES = ("system-node-critical", "system-cluster-critical")


class Treatment(StrEnum):
    SKIP = "skip"
    WAIT = "wait"
    EVICT = "evict"
    BLOCK = "block"


class DrainReason(StrEnum):
    FINISHED = "finished"
    MIRROR = "mirror pod"
    DAEMON_SET = "DaemonSet pod"
    TERMINATING = "terminating"
    CRITICAL = "critical"
    KUBE_SYSTEM = "kube-system"
    DO_NOT_DISRUPT = "do-not-disrupt"
    NOT_SAFE_TO_EVICT = "safe-to-evict is false"
    GAME_SERVER = "game server"
    BARE = "no controller"
    LOCAL_STORAGE = "local storage"
    UNSUPPORTED = "not understood"
    SEVERAL_BUDGETS = "several disruption budgets"
    BUDGET_USED_UP = "disruption budget used up"
    MOVABLE = "movable"


@dataclass(frozen=True, slots=True)
class Judgement:
    pod: Pod
    treatment: Treatment
    reason: DrainReason
    says: str
    about: str = ""
    """The disruption budgets, the rule, the priority class, or why a game server stays."""


Rule = Callable[[Pod, Settings], Judgement | None]


def _passed_over(pod: Pod, _: Settings) -> Judgement | None:
    for applies, reason in (
        (pod.finished, DrainReason.FINISHED),
        (pod.mirror, DrainReason.MIRROR),
        (pod.controller == "DaemonSet", DrainReason.DAEMON_SET),
    ):
        if applies:
            return Judgement(pod, Treatment.SKIP, reason, f"{pod.full_name} is skipped: {reason}")
    return None


def _terminating(pod: Pod, _: Settings) -> Judgement | None:
    if not pod.terminating:
        return None
    return Judgement(pod, Treatment.WAIT, DrainReason.TERMINATING, f"{pod.full_name} is still terminating")


def _critical(pod: Pod, _: Settings) -> Judgement | None:
    if pod.priority_class not in CRITICAL_CLASSES or pod.namespace == "kube-system":
        return None
    return _block(pod, DrainReason.CRITICAL, f"has priority class {pod.priority_class}", pod.priority_class)


def _kube_system(pod: Pod, settings: Settings) -> Judgement | None:
    """Whatever its priority class: CoreDNS of K3s has a critical one, and must be possible to name."""
    if pod.namespace != "kube-system" or _named(pod.name, settings.movable_system_workloads):
        return None
    return _block(pod, DrainReason.KUBE_SYSTEM, "is in kube-system and not named in movable_system_workloads")


def _annotated(pod: Pod, _: Settings) -> Judgement | None:
    if pod.do_not_disrupt:
        return _block(pod, DrainReason.DO_NOT_DISRUPT, "is annotated do-not-disrupt")
    if pod.safe_to_evict is False:
        return _block(pod, DrainReason.NOT_SAFE_TO_EVICT, "is annotated safe-to-evict=false")
    return None


def _bare(pod: Pod, _: Settings) -> Judgement | None:
    if pod.controller or pod.safe_to_evict:
        return None
    return _block(pod, DrainReason.BARE, "has no controller that would create it again")


def _local_storage(pod: Pod, settings: Settings) -> Judgement | None:
    if not pod.local_storage or pod.safe_to_evict or settings.evict_local_storage:
        return None
    return _block(pod, DrainReason.LOCAL_STORAGE, "keeps data on the node (evict_local_storage is off)")


def _unsupported(pod: Pod, _: Settings) -> Judgement | None:
    if not pod.scheduling.unsupported:
        return None
    rule = pod.scheduling.unsupported[0]
    return _block(pod, DrainReason.UNSUPPORTED, f"has {rule}, which Ebbtide does not understand", rule)


RULES: tuple[Rule, ...] = (
    _passed_over,
    _terminating,
    _critical,
    _kube_system,
    _annotated,
    _bare,
    _local_storage,
    _unsupported,
)


def _game_server(pod: Pod, players: Mapping[str, int]) -> Judgement | None:
    why = why_not_movable(pod, players)
    return _block(pod, DrainReason.GAME_SERVER, why.says, why.cause) if why else None


def _block(pod: Pod, reason: DrainReason, says: str, about: str = "") -> Judgement:
    return Judgement(pod, Treatment.BLOCK, reason, f"{pod.full_name} {says}", about)


def _named(name: str, patterns: Iterable[str]) -> bool:
    """`coredns` names the pods of a workload called so, whatever suffix its controller gave them."""
    return any(
        name.startswith(pattern[:-1])
        if pattern.endswith("*")
        else name == pattern or name.startswith(f"{pattern}-")
        for pattern in patterns
    )


def _label_of(selector: LabelSelector) -> tuple[str, str] | None:
    for asked in selector.requirements:
        if asked.operator is SelectorOperator.IN and len(asked.values) == 1:
            return asked.key, asked.values[0]
    return None


class Disruptions:
    """What is left of every disruption budget, shared by all that is drained at the same time.

    With `spends` off it only says whether a pod could be evicted first of all: enough to know that a
    node can be drained one pod after the other.
    """

    def __init__(self, budgets: Sequence[Budget], spends: bool = True) -> None:
        self._spends = spends
        self._left = {(b.namespace, b.name): b.disruptions_allowed for b in budgets}
        self._known: dict[tuple[str, Labels], list[Budget]] = {}
        self._by_label: dict[tuple[str, tuple[str, str] | None], list[Budget]] = {}
        """By namespace and a label that all pods of the budget have; None where there is no such label."""
        for budget in budgets:
            self._by_label.setdefault((budget.namespace, _label_of(budget.selector)), []).append(budget)

    def judge(self, pod: Pod) -> Judgement:
        """Take one disruption for the pod where its budget allows one."""
        covering = self._covering(pod)
        if len(covering) > 1:
            names = " and ".join(sorted(b.name for b in covering))
            says = f"is covered by several budgets ({names})"
            return _block(pod, DrainReason.SEVERAL_BUDGETS, says, names)
        for budget in covering:
            key = (budget.namespace, budget.name)
            if self._left[key] < 1:
                says = (
                    f"{pod.full_name} must wait: PodDisruptionBudget {budget.name} allows no disruption now"
                )
                return Judgement(pod, Treatment.WAIT, DrainReason.BUDGET_USED_UP, says, budget.name)
            self._left[key] -= self._spends
        return Judgement(pod, Treatment.EVICT, DrainReason.MOVABLE, f"{pod.full_name} has not left yet")

    def _covering(self, pod: Pod) -> list[Budget]:
        """Looked for once for all pods with the same labels."""
        told_by = (pod.namespace, pod.labels)
        found = self._known.get(told_by)
        if found is None:
            labels = dict(pod.labels)
            found = [b for b in self._candidates(pod) if matches(b.selector, labels)]
            self._known[told_by] = found
        return found

    def _candidates(self, pod: Pod) -> Iterator[Budget]:
        """Those of its namespace, without most that ask for a label that it does not have."""
        yield from self._by_label.get((pod.namespace, None), ())
        for label in pod.labels:
            yield from self._by_label.get((pod.namespace, label), ())


IN_THE_WAY = {
    Treatment.BLOCK: RemovalCause.POD_BLOCKS,
    Treatment.WAIT: RemovalCause.POD_WAITS,
    Treatment.EVICT: RemovalCause.POD_LEAVES,
}
"""The worst first."""


@dataclass(frozen=True, slots=True)
class DrainPlan:
    judgements: tuple[Judgement, ...]
    attached: tuple[str, ...]
    """Volumes still attached for pods that have left."""

    def treated(self, treatment: Treatment) -> tuple[Judgement, ...]:
        return tuple(j for j in self.judgements if j.treatment is treatment)

    @property
    def drained(self) -> bool:
        return not self.attached and all(j.treatment is Treatment.SKIP for j in self.judgements)

    @property
    def obstacle(self) -> Obstacle:
        """What prevents the drain, worst first."""
        for treatment, cause in IN_THE_WAY.items():
            for judgement in self.treated(treatment):
                return Obstacle(cause, judgement.says, judgement.pod.full_name)
        for volume in self.attached:
            return Obstacle(RemovalCause.VOLUME, f"volume {volume} is still attached", volume)
        return NO_OBSTACLE

    def obstacle_after(self, last: Obstacle) -> Obstacle:
        """The obstacle, with what the API server answered to an eviction where only that is known: the server
        counts budgets at the moment it is asked, and knows more than the list that was read before."""
        only_asked = not self.treated(Treatment.BLOCK) and not self.treated(Treatment.WAIT)
        for judgement in self.treated(Treatment.EVICT) if only_asked else ():
            if (last.cause, last.about) == (RemovalCause.PUT_OFF, judgement.pod.full_name):
                return last
        return self.obstacle


def put_off(effect: Evict, detail: str) -> Obstacle:
    pod = f"{effect.namespace}/{effect.name}"
    return Obstacle(RemovalCause.PUT_OFF, f"{pod} was not evicted: {detail}", pod)


Players = Mapping[str, int]
"""By `namespace/pod`, as they were counted for this look."""


def judge(pod: Pod, disruptions: Disruptions, settings: Settings, players: Players | None) -> Judgement:
    """How a drain treats the pod. `players` is None where the cloud takes the node anyway: then nobody is
    asked whether anybody plays."""
    for rule in RULES:
        judgement = rule(pod, settings)
        if judgement is not None:
            return judgement
    playing = None if players is None else _game_server(pod, players)
    return playing or disruptions.judge(pod)


def plan_drain(
    node: Node,
    pods: Sequence[Pod],
    disruptions: Disruptions,
    settings: Settings,
    players: Players | None,
) -> DrainPlan:
    judgements = tuple(judge(pod, disruptions, settings, players) for pod in pods)
    staying = {volume for pod in pods for volume in pod.volumes}
    attached = tuple(volume for volume in node.volumes_attached if volume not in staying)
    return DrainPlan(judgements, attached)
