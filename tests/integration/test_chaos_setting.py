"""What `make chaos-real` starts with: a configuration that loads, with everything on, and bugs that apply."""

from __future__ import annotations

from pathlib import Path

from ebbtide.config import load
from tests.chaos_real.planted import BUGS, of_the_night, plant, sightings
from tests.chaos_real.setting import PLAIN, write_config
from tests.mutants.plant import changed

PLACES = {
    "store": "postgresql://postgres@127.0.0.1:1/chaos",
    "cloud": "http://127.0.0.1:1",
    "image": "ami-12345678",
    "queue": "http://127.0.0.1:1/queue",
    "metrics": "http://127.0.0.1:1",
}


def test_everything_that_is_off_by_default_is_on(tmp_path: Path) -> None:
    config = load(write_config(tmp_path, "chaos", tmp_path / "kubeconfig", **PLACES), {})
    assert config.settings.repair
    assert config.settings.consolidation.enabled
    assert config.gate.service_ref is not None
    (policy,) = config.policies
    assert policy.scale_to_zero
    assert policy.gate is not None


def test_an_earlier_version_gets_what_it_knows(tmp_path: Path) -> None:
    path = write_config(tmp_path, "chaos", tmp_path / "kubeconfig", **PLACES)
    plain = load(path.with_name(PLAIN), {})
    assert not plain.policies
    assert not plain.settings.repair
    assert plain.settings.max_workers == load(path, {}).settings.max_workers


def test_the_bug_of_the_night_is_in_the_copy_and_nowhere_else(tmp_path: Path) -> None:
    assert [of_the_night(number) for number in range(len(BUGS) + 1)] == [*BUGS, BUGS[0]]
    for number, bug in enumerate(BUGS):
        sources = plant(bug.mutant, tmp_path / str(number))
        planted = changed(bug.mutant)
        assert (sources / "ebbtide" / planted.file).read_text() == planted.source
        compile(planted.source, str(planted.file), "exec")


def test_a_bug_of_the_night_is_caught_only_by_what_it_does() -> None:
    woken, forgotten = BUGS
    others = ["runner-7-this ended by itself: killed", "the memory of a runner grew from 0 to 9 KiB"]
    asleep = "reports, which is in use, is not up, or its Service still leads to the gates"
    assert sightings(woken, [*others, asleep]) == [asleep]
    assert sightings(forgotten, [*others, asleep]) == []
    assert sightings(forgotten, ["node node-i-1 has no instance"]) == ["node node-i-1 has no instance"]
