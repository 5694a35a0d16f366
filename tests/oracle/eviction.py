"""Whether a pod may be evicted now, and by whom. `scale-down-algorithm.md`, rows 6, 17, 25, 30."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ebbtide.model.pod import Budget, LabelSelector, Pod, PodPhase, SelectorOperator
from tests.oracle import servers
from tests.oracle.answers import Ruling, either, no, rule, yes
from tests.oracle.facts import By, Moment

CRITICAL = ("system-node-critical", "system-cluster-critical")


@rule("row 6", "yes", "no")
def passed_over(pod: Pod) -> Ruling:
    """ "finished, mirror and DaemonSet pods are passed over first; only then is a pod judged critical"."""
    if pod.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        return yes("finished")
    if pod.mirror or pod.controller == "DaemonSet":
        return yes("belongs to its node")
    return no("counts")


@rule("scale-down 'Kubernetes Safety', row 25", "yes", "no", "either")
def critical(pod: Pod, movable_names: tuple[str, ...]) -> Ruling:
    """ "Pods with system-node-critical or system-cluster-critical priority abort the drain; kube-system pods
    (non-DaemonSet) are treated as critical"; "a setting names system workloads that may be moved"."""
    if pod.namespace == "kube-system":
        named = [_is_of(pod.name, name) for name in movable_names]
        if any(named):
            return no("a system workload that the setting names")
        loosely = any(pod.name.startswith(name.rstrip("*")) for name in movable_names)
        return either("which workload it belongs to is not said") if loosely else yes("kube-system")
    return yes(pod.priority_class) if pod.priority_class in CRITICAL else no("an ordinary pod")


def _is_of(pod_name: str, workload: str) -> bool:
    """A pod bears its workload's name and at most two suffixes that controllers make up."""
    if workload.endswith("*"):
        return pod_name.startswith(workload[:-1])
    return re.fullmatch(re.escape(workload) + r"(-[a-z0-9]+){0,2}", pod_name) is not None


@rule("'Never violate Kubernetes safety constraints'", "yes", "no", "either")
def budget_allows(pod: Pod, budgets: tuple[Budget, ...]) -> Ruling:
    """A PodDisruptionBudget that allows no disruption now forbids the eviction of a ready pod it covers."""
    covering = [b for b in budgets if b.namespace == pod.namespace and covers(b.selector, dict(pod.labels))]
    if any(budget.disruptions_allowed < 1 for budget in covering):
        return no("a budget is used up") if pod.ready else either("it is not ready")
    return yes("no budget forbids it") if len(covering) < 2 else either("more than one budget")


def covers(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    for one in selector.requirements:
        value = labels.get(one.key)
        holds = {
            SelectorOperator.IN: value in one.values,
            SelectorOperator.NOT_IN: value not in one.values,
            SelectorOperator.EXISTS: value is not None,
            SelectorOperator.DOES_NOT_EXIST: value is None,
        }
        if not holds[one.operator]:
            return False
    return True


@rule("rows 6, 10, 30", "yes", "no", "either")
def may_evict(pod: Pod, by: By, moment: Moment) -> Ruling:
    """ "the rules on who may be moved hold for every voluntary eviction (scale-down, consolidation,
    rebalance, expiry, drift). [...] Only an interruption evicts regardless"."""
    if passed_over(pod).answer == "yes":
        return no("passed over")
    if pod.terminating:
        return either("it is leaving already")
    grave = critical(pod, moment.settings.movable_system_workloads)
    if by is By.INTERRUPTION:
        return yes("the cloud takes the node anyway") if grave.answer == "no" else either("critical")
    if grave.answer != "no":
        return no("critical") if grave.answer == "yes" else grave
    if servers.movable(pod, moment.players).answer == "no":
        return no("a game server that is not to be moved")
    allowed = budget_allows(pod, moment.budgets)
    if allowed.answer != "yes":
        return allowed
    return either("the documents do not speak of it") if _unspoken(pod) else yes("nothing protects it")


def _unspoken(pod: Pod) -> bool:
    """Annotations, bare pods, local storage, odd constraints: named in the project's own pages only."""
    marked = pod.do_not_disrupt or pod.safe_to_evict is not None or pod.local_storage
    return marked or not pod.controller or bool(pod.scheduling.unsupported)
