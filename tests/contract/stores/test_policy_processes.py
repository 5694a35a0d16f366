"""Eight processes at once: what was acknowledged is there, numbers never go back, sums are exact."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.contract.stores.hammer import PROCESSES, open_both
from tests.contract.stores.lab import StoreLab
from tests.contract.stores.policy_examples import make_policy
from tests.contract.stores.policy_hammer import PRICE, SHARED, Done, hammer_policies
from tests.contract.stores.test_processes import place_of


@pytest.mark.timeout(180)
def test_eight_processes_lose_no_write_of_one_policy(lab: StoreLab, cluster: str, tmp_path: Path) -> None:
    with place_of(lab) as place:
        store, policies = open_both(place, cluster)
        policies.put_policy(make_policy(1))
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(PROCESSES, mp_context=spawn) as processes:
            running = [
                processes.submit(hammer_policies, place, cluster, number, tmp_path)
                for number in range(PROCESSES)
            ]
            reports = [process.result() for process in running]
        policy, state, days = policies.find_policy(SHARED), policies.find_state(SHARED), policies.list_days()
        listed = {each.name: each.id for each in policies.list_policies()}
        log = {entry.id for entry in store.read_log(limit=100_000)}
        store.close()
    assert policy is not None
    assert state is not None
    _numbers_are_whole([number for report in reports for number, _ in report.versions], policy.version)
    assert policy.cooldown_seconds == 300 + policy.version - 1
    revs = [number for report in reports for number, _ in report.revs]
    _numbers_are_whole(revs + [rev for report in reports for rev in report.batch_revs], state.rev)
    assert state.wake_count == state.rev - 1
    acknowledged = {entry for report in reports for _, entry in (*report.versions, *report.revs)}
    assert log == acknowledged
    assert [day.zero_price_seconds for day in days] == [PRICE * sum(report.seconds for report in reports)]
    _one_wins(reports, listed)
    assert sum(report.refused for report in reports) > 0, "they never met"
    assert len([report for report in reports if report.revs]) > 1, "only one of them wrote"


def _numbers_are_whole(acknowledged: list[int], last: int) -> None:
    assert sorted(acknowledged) == list(range(2, last + 1)), "two writes made one number, or one is missing"


def _one_wins(reports: list[Done], listed: dict[str, str]) -> None:
    for key in {key for report in reports for key in report.kept}:
        assert len({report.kept[key] for report in reports if key in report.kept}) == 1
    taken = [named for report in reports for named in report.named.items()]
    assert len(taken) == len(dict(taken)), "two have one name"
    assert dict(taken).items() <= listed.items()
    assert taken
