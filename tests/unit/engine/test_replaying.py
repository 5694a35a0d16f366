"""Which packer was used is an input: where it is not installed, a start and a replay are refused."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from ebbtide.bootstrap import refuse_without_packer
from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.core.nodes.decide import decide
from ebbtide.engine.journal import decide_again, decision_entry, read_inputs
from ebbtide.errors import SolverMissing
from ebbtide.model.events import Inputs
from ebbtide.model.log import LogEntry
from ebbtide.model.settings import Packer, Settings
from tests.unit.engine.builders import Small


def stored(packer: Packer) -> LogEntry:
    run = Small().leased_run()
    settings = replace(run.settings, packer=packer)
    inputs = Inputs(run.snapshot, run.record, settings, run.now)
    return decision_entry(decide(run.snapshot, run.record, settings, run.now, "d"), inputs)


@pytest.mark.parametrize("packer", list(Packer))
def test_the_packer_is_recorded_with_the_decision_and_used_again(packer: Packer) -> None:
    entry = stored(packer)
    assert read_inputs(entry).settings.packer is packer
    before, again = decide_again(entry)
    assert before == again


def test_a_replay_is_refused_where_the_packer_of_the_decision_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry, plain = stored(Packer.HIGHS), stored(Packer.PLAIN)
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(SolverMissing, match=r"decision d cannot be computed again here: .*highspy"):
        decide_again(entry)
    before, again = decide_again(plain)
    assert before == again


def test_a_decision_older_than_the_recorded_packer_is_read_as_highs() -> None:
    entry = stored(Packer.PLAIN)
    inputs = entry.data["inputs"]
    assert isinstance(inputs, dict)
    del inputs["settings"]["packer"]
    assert read_inputs(entry).settings.packer is Packer.HIGHS


def test_the_packer_is_read_from_file_and_environment() -> None:
    read = parse_document("packer: plain", "ebbtide.yaml")
    assert build_config(read, {}).settings.packer is Packer.PLAIN
    assert build_config(read, {"PACKER": "highs"}).settings.packer is Packer.HIGHS


def test_a_missing_solver_is_an_error_at_start_up(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_without_packer(Settings())
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(SolverMissing, match=r"needs numpy, .*nothing was touched.*set packer to plain"):
        refuse_without_packer(Settings())
    refuse_without_packer(Settings(packer=Packer.PLAIN))
