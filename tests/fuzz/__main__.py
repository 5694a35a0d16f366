"""`make fuzz`: each target in turn by atheris, guided by what of our code an input reaches.

    python -m tests.fuzz [--seconds 60] [TARGET...]
    python -m tests.fuzz --one TARGET --seconds 60 | --input FILE TARGET

Each target has a process of its own, since atheris ends it. A finding is written to `build/fuzz/TARGET-...`,
and belongs into `corpus/TARGET` once it is fixed.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.fuzz.seeds import kept

OUT = Path("build/fuzz")


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.fuzz")
    asked.add_argument("targets", nargs="*")
    asked.add_argument("--seconds", type=int, default=60)
    asked.add_argument("--one", action="store_true")
    asked.add_argument("--input", type=Path)
    given = asked.parse_args()
    if given.one:
        return fuzz(given.targets[0], given.seconds)
    from tests.fuzz.targets import TARGETS

    if given.input:
        TARGETS[given.targets[0]](given.input.read_bytes())
        return 0
    found = [name for name in given.targets or TARGETS if run(name, given.seconds)]
    print(f"fuzzing: {len(given.targets or TARGETS)} targets, {len(found)} with findings {found}")
    return 1 if found else 0


def run(name: str, seconds: int) -> bool:
    OUT.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz", "--one", name, "--seconds", str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = done.stdout.splitlines()
    totals = [line for line in lines if line.startswith("Done ")]
    print(f"{name}: {(totals or ['no totals'])[0]}; exit {done.returncode}", flush=True)
    if done.returncode:
        print("\n".join(lines[-30:]), flush=True)
    return bool(done.returncode)


def fuzz(name: str, seconds: int) -> int:
    atheris: Any = importlib.import_module("atheris")  # only `make fuzz` has it
    with atheris.instrument_imports(include=["ebbtide"]):
        from tests.fuzz.targets import TARGETS
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(kept(name)):
            (Path(folder) / f"seed-{number}").write_bytes(data)
        options = [
            f"-max_total_time={seconds}",
            "-timeout=20",
            f"-artifact_prefix={OUT}/{name}-",
            "-max_len=20000",
        ]
        atheris.Setup([sys.argv[0], *options, folder], TARGETS[name])
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
