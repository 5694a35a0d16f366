"""What is refused before anything is done: numbers in schedules, taken targets, used keys, small types, slow
ticks. Rows 39, 44, 45 and 48."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tests.oracle.answers import Ruling, no, rule, yes


@rule("row 39", "yes", "no")
def number_in_schedule(members: int, replicas: int, wakes: bool) -> Ruling:
    """ "a number is allowed only for one workload". Zero puts to sleep and is no such number (row 38);
    `members` is 0 for a pool."""
    if wakes or replicas == 0:
        return yes("it restores what each had, or puts all to sleep")
    return yes("one workload") if members == 1 else no(f"{replicas} for each of {members} workloads")


@rule("row 44", "yes", "no")
def target_is_free(
    mine: Collection[str], enabled: bool, others: Mapping[str, tuple[Collection[str], bool]]
) -> Ruling:
    """ "the store enforces one enabled policy for a target"."""
    for name, (targets, at_work) in others.items():
        taken = set(mine) & set(targets)
        if enabled and at_work and taken:
            return no(f"{sorted(taken)[0]} belongs to {name}")
    return yes("nobody else has it")


@rule("row 44", "yes", "no")
def key_still_counts(key: str, used: Collection[str]) -> Ruling:
    """ "the id is used up in the same write": of a write that was made, not of one that was refused."""
    return no("used up by an earlier wake") if key in used else yes("not used yet")


@rule("row 45", "yes", "no")
def type_for_workers(name: str, allow_small: bool) -> Ruling:
    """ "`config check` refuses cpx12 in a pool unless `allow_small: true`"."""
    if name == "cpx12" and not allow_small:
        return no("too small for workers")
    return yes("allowed" if name == "cpx12" else "large enough")


@rule("row 48", "yes", "no")
def tick_interval(seconds: int, most: int) -> Ruling:
    """ "`config check` and the Lambda refuse an interval above `max_tick_gap_sec`"."""
    return no(f"{seconds} s, max_tick_gap_sec is {most}") if seconds > most else yes("often enough")
