"""Wakes that race two idle loops in two processes, on the stores that replicas share: not one is lost.

`EBBTIDE_WAKES=10000 pytest -s tests/contract/stores/test_wake_race_processes.py` runs as many on
each and prints its numbers.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.contract.stores.hammer import open_both
from tests.contract.stores.lab import StillClock, StoreLab
from tests.contract.stores.test_processes import place_of
from tests.contract.stores.wake_racing import TARGETS, runner, targets
from tests.contract.stores.wake_replica import REPLICAS, Ground, connect, race, workload_server
from tests.policy_harness import make_ref

WAKES = int(os.environ.get("EBBTIDE_WAKES", "0"))
QUICK = {"postgresql": 300, "dynamodb": 96}


@pytest.mark.timeout(180 + WAKES)
@pytest.mark.parametrize("lab", ["postgresql", "dynamodb"], indirect=True)
def test_no_wake_is_lost_while_two_processes_race_to_zero(
    lab: StoreLab, cluster: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.params["lab"]
    wakes = WAKES or QUICK[kind]
    with place_of(lab) as place, workload_server() as server:
        store, policies = open_both(place, cluster)
        for policy in targets():
            policies.put_policy(policy)
        ground = Ground(place, cluster, str(server.address), tmp_path, wakes)
        began = time.monotonic()
        with ProcessPoolExecutor(REPLICAS, mp_context=multiprocessing.get_context("spawn")) as processes:
            running = [processes.submit(race, ground, number) for number in range(REPLICAS)]
            done = [process.result() for process in running]
        took = time.monotonic() - began
        woken = {target: count for each in done for target, count in each.wakes.items()}
        lost = [one for each in done for one in each.lost]
        falls = [each.falls for each in done]
        print(
            f"\n{kind}: {sum(woken.values())} wakes by {REPLICAS} processes in "
            f"{took:.1f} s, {' + '.join(map(str, falls))} falls, {len(lost)} wakes lost"
        )
        memory_workloads = connect(ground.memory_workloads)
        left = [memory_workloads.read(make_ref(f"w{target}")).replicas for target in range(TARGETS)]
        states = policies.list_states()
        rebuilt = runner(StillClock(), store, memory_workloads, "rebuild").rebuild()
        store.close()
    assert lost == []
    assert left == [2] * TARGETS
    assert sum(falls) > 0, "nothing went to zero, so nothing could be lost"
    assert sum(woken.values()) >= wakes
    assert sorted(state.wake_count for state in states) == sorted(woken.values())
    assert not any(one.changed for one in rebuilt)
