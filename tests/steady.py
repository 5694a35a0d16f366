"""Whether a simulation that skips what provably comes out the same does come out the same.

    python -m tests.steady --seeds 200 [--first 1] [--only-seeds] [--recording month.ebb]

Plays swarm seeds, stories and recordings twice, once with every tick computed, and compares the bytes. While
it skips, each answer that is used again is computed as well and compared. Of recordings there are some hours
of that of `bench.bench_month`, with each profile, and those that are named.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.bench_month import month
from ebbtide.config.profiles import PROFILES
from ebbtide.engine.ports import ALWAYS, Always, Tracked
from ebbtide.engine.steady import Steady
from ebbtide.model.decision import Action, Decision
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot
from ebbtide.simulator.backtest.runs import Work, candidates, story_for
from ebbtide.simulator.recording.file import Recording, read_recording
from ebbtide.simulator.run.simulate import Simulation
from ebbtide.simulator.story import play, read_story
from ebbtide.simulator.story.parse import Story
from tests.swarm.clusters import build

HOURS, NODES = 3, 20
"""Of the recording that is made for this."""


class Audited(Steady):
    """Computes all that is used again, and refuses what differs: a simulation reports that as a violation."""

    repeats = 0
    """Of all runners together."""

    def track(self, snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Tracked:
        found = super().track(snapshot, record, settings, now)
        expected = ALWAYS.track(snapshot, record, settings, now)
        assert found == expected, f"at {now}: the timers differ: {found} instead of {expected}"
        return found

    def decide(
        self, snapshot: Snapshot, record: Record, settings: Settings, now: int, decision_id: str
    ) -> Decision:
        before = self.repeated
        logged = record.decision_key, record.decision_logged_at + settings.decision_log_seconds
        found = super().decide(snapshot, record, settings, now, decision_id)
        expected = ALWAYS.decide(snapshot, record, settings, now, decision_id)
        Audited.repeats += self.repeated - before
        if expected.action is Action.NOTHING and logged[0] == expected.key and now < logged[1]:
            # What is not logged is not shown either, except for what it says.
            assert (found.id, found.at, found.action) == (expected.id, expected.at, expected.action)
            assert (found.reason, found.key) == (expected.reason, expected.key), f"at {now}"
        else:
            assert found == expected, f"at {now}: {found} instead of {expected}"
        return found


def compare_seed(seed: int) -> None:
    texts = []
    for think in (Audited, Always):
        simulation = Simulation(build(seed))
        simulation.stage.think = think
        texts.append(simulation.run().to_json())
    assert texts[0] == texts[1], f"seed {seed} comes out otherwise where ticks are skipped"


def compare_story(story: Story) -> None:
    texts = [play(story, think).to_json() for think in (Audited, Always)]
    assert texts[0] == texts[1], f"{story.keys.name} comes out otherwise where ticks are skipped"


def compare_recording(recording: Recording, name: str, profile: str) -> None:
    chosen = candidates(recording.story["settings"], [], [profile], [])[1]
    compare_story(story_for(Work(recording, name, chosen, 1)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--only-seeds", action="store_true", help="neither stories nor recordings")
    parser.add_argument("--recording", type=Path, action="append", default=[], help="this one, too")
    asked = parser.parse_args()
    folder = Path(__file__).parent
    stories = sorted(
        (*folder.glob("stories/*.yaml"), *folder.glob("../src/ebbtide/simulator/stories/*.yaml"))
    )
    recordings = [(month(HOURS / 24, NODES), "month.ebb")]
    if asked.only_seeds:
        stories, recordings = [], []
    recordings += [(read_recording(path), path.name) for path in asked.recording]
    for path in stories:
        compare_story(read_story(path))
    for recording, name in recordings:
        for profile in PROFILES:
            compare_recording(recording, name, profile)
    for seed in range(asked.first, asked.first + asked.seeds):
        compare_seed(seed)
    print(
        f"{len(stories)} stories, {len(recordings)} recordings with {len(PROFILES)} profiles and "
        f"{asked.seeds} seeds are equal; {Audited.repeats} decisions used again"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
