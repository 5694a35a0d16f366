"""Pods that nobody may evict of his own will, said a second time and without the rules of `core.drain`."""

from __future__ import annotations

from ebbtide.model.pod import Pod
from ebbtide.model.settings import Settings

CRITICAL = ("system-node-critical", "system-cluster-critical")
PLAN = "ebbtide.dev/plan"


def why_protected(pod: Pod, settings: Settings) -> str:
    """The first reason not to evict it; empty where there is none."""
    insists = pod.safe_to_evict is True
    system = pod.namespace == "kube-system"
    movable = any(pod.name.startswith(name.rstrip("*")) for name in settings.movable_system_workloads)
    reasons = (
        (pod.do_not_disrupt, "is annotated do-not-disrupt"),
        (pod.safe_to_evict is False, "is annotated safe-to-evict=false"),
        (not pod.controller and not insists, "has no controller"),
        (system and not movable, "is in kube-system"),
        (pod.priority_class in CRITICAL and not system, "is critical"),
        (pod.local_storage and not insists and not settings.evict_local_storage, "keeps data on its node"),
        (dict(pod.annotations).get(PLAN) == "reserved", "is a reserved game server"),
    )
    return next((says for applies, says in reasons if applies), "")
