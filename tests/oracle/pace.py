"""Cooldowns and back-offs. Scale-down precondition 2, "defaults", rows 5 and 32."""

from __future__ import annotations

from ebbtide.model.settings import Settings
from tests.oracle import nodes
from tests.oracle.answers import Meaning, Ruling, either, no, rule, yes
from tests.oracle.facts import Moment
from tests.oracle.load import pending


@rule("scale-down precondition 2", "yes", "no")
def cooled_down(moment: Moment) -> Ruling:
    """ "now - lastScaleEpoch >= COOLDOWN_DOWN_SEC"."""
    since = moment.now - moment.last_scale_at
    if moment.last_scale_at and since < moment.settings.cooldown_down_seconds:
        return no(f"{since} s since the last scaling")
    return yes("cooled down")


@rule("defaults: COOLDOWN_UP_SEC", "yes", "no", "either")
def may_launch_again(moment: Moment) -> Ruling:
    """ "A scale-up uses COOLDOWN_UP_SEC [...]; queued pods with no worker at all skip the cooldown"."""
    since = moment.now - moment.last_scale_at
    if not moment.last_scale_at or since >= moment.settings.cooldown_up_seconds:
        return yes("cooled down")
    if pending(moment) and not nodes.staying(moment, ()):
        some = any(nodes.is_worker(node).answer == "yes" for node in moment.nodes)
        return either("there are workers, but none that counts") if some else yes("no worker at all")
    return no(f"{since} s since the last scaling")


@rule("rows 5, 32", "yes", "no")
def removals_may_resume(moment: Moment) -> Ruling:
    """ "a failure with none removed starts a growing back-off"."""
    return no("backing off") if moment.now < moment.removal_backoff_until else yes("no back-off")


@rule("rows 5, 32", "cooldown", "back-off", "none", "either")
def after_removals(removed: int, ended_by_demand: bool | None) -> Ruling:
    """ "any node removed starts the cooldown"; "every operation that removed nothing starts the growing
    back-off, unless demand or load ended it"."""
    if removed:
        return Ruling("cooldown", f"{removed} removed")
    if ended_by_demand is None:
        return Ruling("either", "who ended it is not known")
    return Ruling("none", "demand or load ended it") if ended_by_demand else Ruling("back-off", "in vain")


@rule("row 5: 'growing'", "longer", "at its limit")
def next_backoff(before: int, settings: Settings) -> Meaning[int]:
    """ "a growing back-off": how long the back-off of one failure more must be at least."""
    if before >= settings.backoff_max_seconds:
        return Meaning("at its limit", settings.backoff_max_seconds)
    return Meaning("longer", before + 1)
