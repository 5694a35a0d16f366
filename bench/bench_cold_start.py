"""How long a Lambda function takes to start: importing the handler from the built package, against importing
boto3 and urllib3 alone, which any autoscaler on Lambda needs.

    python -m bench.bench_cold_start [--runs 9] [--package ZIP]

Every number is the median of fresh processes that have only the package's content on their path.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 2.0
NOTHING = "pass"
LIBRARIES = "import boto3, urllib3"
HANDLER = "from ebbtide.entrypoints.aws_lambda import handler"
FIRST_CALL = "\n".join(
    (
        HANDLER,
        LIBRARIES,
        "import ebbtide.bootstrap, ebbtide.config, ebbtide.adapters.kube.cluster",
        "import ebbtide.adapters.stores.dynamodb.store, ebbtide.adapters.clouds.aws",
        "import ebbtide.adapters.prometheus",
    )
)


def build(folder: Path) -> Path:
    out = folder / "package.zip"
    wanted = {
        "PYTHON": sys.executable,
        "PYTHON_VERSION": f"{sys.version_info.major}.{sys.version_info.minor}",
        "ARCH": os.uname().machine,
        "OUT": str(out),
    }
    subprocess.run(["bash", ROOT / "scripts/build_lambda.sh"], env={**os.environ, **wanted}, check=True)
    return out


def measure(task: Path, code: str) -> float:
    """Seconds of one fresh process, from its start to its end."""
    program = f"import sys; sys.path.insert(0, {str(task)!r})\n{code}"
    start = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-S", "-B", "-c", program], check=True)
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--package", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package = asked.package or build(folder)
        with zipfile.ZipFile(package) as content:
            content.extractall(folder / "task")
        codes = {"python": NOTHING, "libraries": LIBRARIES, "handler": HANDLER, "first call": FIRST_CALL}
        times: dict[str, list[float]] = {key: [] for key in codes}
        for _ in range(asked.runs):
            for key, code in codes.items():  # in turn, so a busy moment falls on all alike
                times[key].append(measure(folder / "task", code))
        megabytes = package.stat().st_size / 1024 / 1024
    bare = statistics.median(times["python"])
    net = {key: statistics.median(values) - bare for key, values in times.items()}
    ratio, whole = net["handler"] / net["libraries"], net["first call"] / net["libraries"]
    print(f"package                          {megabytes:8.1f} MB zipped, at most 50")
    print(f"boto3 and urllib3                {net['libraries'] * 1000:8.0f} ms")
    print(f"the handler                      {net['handler'] * 1000:8.0f} ms, {ratio:.2f} times that")
    print(f"all that the first call imports  {net['first call'] * 1000:8.0f} ms, {whole:.2f} times that")
    print(f"ratio {max(ratio, whole):.2f}, at most {LIMIT}")
    return 0 if max(ratio, whole) <= LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())
