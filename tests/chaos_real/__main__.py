"""Disturb the whole product on real parts for so many seconds, and print what happened."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.chaos_real.drive import Drive
from tests.chaos_real.nursery import ROOT, Nursery, nursery
from tests.chaos_real.planted import of_the_night, plant, sightings
from tests.chaos_real.stand import stand
from tests.chaos_real.totals import RunTotals
from tests.chaos_real.versions import other_version
from tests.servers.control_plane import Unavailable
from tests.servers.dynamodb import CREDENTIALS

STORES = ("postgresql", "dynamodb")
SHOWN = 30


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos_real", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=("both", *STORES), default="both")
    parser.add_argument("--other", default="", help="revision of the second version; `none` for none")
    parser.add_argument(
        "--sources", type=Path, default=ROOT / "src", help="of this version: say, with a bug planted"
    )
    parser.add_argument(
        "--plant", type=int, help="plant the bug of this number, and fail unless it is seen", metavar="NIGHT"
    )
    parser.add_argument("--keep", type=Path, help="folder for what the runners said")
    given = parser.parse_args()
    os.environ.update(CREDENTIALS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # what was started is ended first
    with tempfile.TemporaryDirectory(prefix="ebb-chaos-real-") as place:
        try:
            if given.plant is not None:
                return caught(given, Path(place))
            return chaos(given, Path(place))
        except Unavailable as why:
            print(f"not run: {why}")
            return 2
        finally:
            if given.keep is not None:
                shutil.copytree(place, given.keep, dirs_exist_ok=True)


def chaos(given: argparse.Namespace, place: Path) -> int:
    other = other_version(given.other, place / "other")
    print(other.says, flush=True)
    wanted = STORES if given.store == "both" else (given.store,)
    total = RunTotals()
    for name in wanted:
        folder = place / name
        folder.mkdir()
        sources = [given.sources, *([other.sources] if other.sources is not None else [])]
        with stand(name, given.seed, folder) as stood, nurseries(sources, folder) as born:
            found = Drive(stood, born, given.seed, folder).run(given.seconds / len(wanted))
        print(
            f"{name}: {found.seconds:.0f} s, {found.kills} kills, {len(found.violations)} violations",
            flush=True,
        )
        for violation in found.violations[:SHOWN]:
            print(f"  {violation}", flush=True)
        for error in found.of_other[:SHOWN]:
            print(f"  the other version: {error}", flush=True)
        total.add(found)
    tell(total)
    return 1 if total.violations or total.lost_writes else 0


def caught(given: argparse.Namespace, place: Path) -> int:
    """0 where the judge sees what a bug does."""
    bug, name = of_the_night(given.plant), STORES[given.plant % len(STORES)]
    store = name if given.store == "both" else given.store
    sources = plant(bug.mutant, place / "planted")
    with stand(store, given.seed, place) as stood, nurseries([sources], place) as born:
        found = Drive(stood, born, given.seed, place, hunts=bug.shows).run(given.seconds)
    seen = sightings(bug, found.violations)
    print(f"planted on {store}: {bug.mutant.name}")
    for violation in found.violations[:SHOWN]:
        print(f"  {'seen' if violation in seen else 'not by this bug'}: {violation}")
    print(f"{'caught' if seen else 'NOT caught'} after {found.kills} kills and {found.removals} removals")
    return 0 if seen else 1


@contextmanager
def nurseries(sources: list[Path], folder: Path) -> Iterator[list[Nursery]]:
    """One for each version."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(nursery(each, folder / f"nursery-{number}.log"))
            for number, each in enumerate(sources)
        ]


def tell(found: RunTotals) -> None:
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(found.faults.items()))
    memory = ", ".join(f"{first / 1024:.0f} MiB -> {last / 1024:.0f} MiB" for first, last in found.memory)
    print(f"{found.kills} kills and {found.freezes} freezes in {found.seconds:.0f} s")
    print(f"{sum(found.faults.values())} faults of the network: {faults}")
    print(
        f"{found.launches} launches, {found.removals} removals ({found.excused} next to a loss), "
        f"{found.losses} spot losses, {found.silences} silent kubelets, {found.sleeps} sleeps"
    )
    print(
        f"{found.writes} acknowledged writes, {found.lost_writes} lost; "
        f"{found.by_other} of them by the other version"
    )
    print(f"memory of the runner that is never killed, first and last: {memory}")
    print(f"{len(found.violations)} violations")


if __name__ == "__main__":
    sys.exit(main())
