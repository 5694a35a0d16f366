"""Random clusters with random faults: those that once failed, and a few more with every push."""

from __future__ import annotations

import pytest

from ebbtide.simulator.faults.catalogue import FAULTS
from tests.simulation.conftest import SWARM
from tests.swarm.kept import KEPT, KEPT_WIDE
from tests.swarm.run import run_seed

FRESH = range(1, 151)


@pytest.mark.parametrize("seed", sorted(KEPT), ids=lambda seed: f"{seed}: {KEPT[seed]}")
def test_a_seed_that_once_failed_ends_well(seed: int) -> None:
    assert run_seed(seed, sleeps=False, wide=False).violations == (), (
        f"python -m tests.swarm --seed {seed} --awake --tell"
    )


@pytest.mark.parametrize("seed", sorted(KEPT_WIDE), ids=lambda seed: f"{seed}: {KEPT_WIDE[seed]}")
def test_a_wide_seed_that_once_failed_ends_well(seed: int) -> None:
    assert run_seed(seed).violations == (), f"python -m tests.swarm --seed {seed} --tell"


@pytest.mark.timeout(600)
def test_a_swarm_of_clusters_ends_well() -> None:
    met: set[str] = set()
    for seed in FRESH:
        outcome = run_seed(seed)
        SWARM.append(outcome)
        met.update(outcome.faults)
        again = f"python -m tests.swarm --seed {seed} --tell"
        assert outcome.violations == (), again
    assert met == set(FAULTS)
    assert len(FAULTS) >= 25


def test_the_same_seed_gives_the_same_run() -> None:
    assert run_seed(7) == run_seed(7)
