"""Sweeps: the same runs on other processes give the same results, bit for bit."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError

from ebbtide.errors import Usage
from ebbtide.simulator.backtest import sweep as sweeps
from ebbtide.simulator.backtest.runs import Results, Run, Work, candidates
from ebbtide.simulator.backtest.sweep import Machines, Sweep, _answers, _check_answers
from tests.stories.test_recording_files import recording


def works() -> list[Work]:
    found = candidates(recording().story["settings"], [], ["balanced"], [])
    return [Work(recording(), "month.ebb", one, 1 + seed) for one in found for seed in range(2)]


def hash_of(runs: Sequence[Run]) -> str:
    return hashlib.sha256(msgspec.json.encode(list(runs))).hexdigest()


def test_two_processes_give_what_one_gives_bit_for_bit(tmp_path: Path) -> None:
    with Sweep(Results(None), Machines()) as alone:
        expected = alone.play(works())
    told: list[Work] = []
    with Sweep(Results(tmp_path / "runs"), Machines(2), told.append) as both:
        played = both.play(works())
    assert hash_of(played) == hash_of(expected)
    assert sorted(work.key for work in told) == sorted(work.key for work in works())
    # Kept under the same keys: it makes no difference who continues.
    with Sweep(Results(tmp_path / "runs"), Machines()) as later:
        assert later.play(works()) == expected
    assert len((tmp_path / "runs").read_bytes().splitlines()) == len(works())


def test_the_same_work_twice_is_played_once(tmp_path: Path) -> None:
    with Sweep(Results(tmp_path / "runs"), Machines()) as sweep:
        first, second = sweep.play([works()[0], works()[0]])
    assert first == second
    assert len((tmp_path / "runs").read_bytes().splitlines()) == 1


def test_a_result_of_another_version_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sweep(Results(tmp_path / "runs"), Machines(2)) as sweep:
        monkeypatch.setattr(sweeps, "__version__", "9.9.9")
        with pytest.raises(Usage, match=r"this is 9\.9\.9: its result could differ and was not kept"):
            sweep.play(works()[:1])
    assert not (tmp_path / "runs").exists()


def test_a_worker_that_ends_is_said_with_what_to_do() -> None:
    def killed(calls: object) -> list[tuple[int, str, Run]]:
        raise TerminatedWorkerError("A worker process managed by the executor was killed. It had ...")

    with pytest.raises(Usage, match=r"was killed\. Finished runs are kept\. .* with fewer --workers"):
        list(_answers(killed, [], Machines(2)))


@pytest.mark.parametrize(
    ("machines", "absent", "says"),
    [
        (Machines(2), "joblib", r"need joblib; nothing ran\. .*install .*foresight"),
        (Machines(2, "dask"), "distributed", r"need distributed; nothing ran\. .*install distributed"),
        (Machines(2, "ray"), "ray", r"need ray; nothing ran\. .*install ray"),
    ],
)
def test_a_library_that_is_missing_is_named_with_its_command(
    machines: Machines, absent: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(Usage, match=says), Sweep(Results(None), machines):
        pass


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "tcp://127.0.0.1:1", "[:"])
def test_an_address_that_answers_nothing_is_said_before_a_library_tries_it(address: str) -> None:
    """Ray tried for minutes."""
    with pytest.raises(Usage, match=r"ray does not answer at .*; nothing ran\. Check --address"):
        _check_answers(Machines(2, "ray", address))


def test_a_cluster_of_ray_that_does_not_start_is_said_and_nothing_of_it_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray raises a plain Exception there, which reached the user as a traceback."""
    ended: list[bool] = []

    def init(**_: object) -> None:
        raise Exception("The current node timed out during startup.")

    ray = SimpleNamespace(init=init, shutdown=lambda: ended.append(True))
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.util", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "ray.util.joblib", SimpleNamespace(register_ray=lambda: None))
    says = r"ray could not start a cluster here: .* timed out during startup; nothing ran\. .*raylet\.err"
    with pytest.raises(Usage, match=says), Sweep(Results(None), Machines(2, "ray")):
        pass
    assert ended
