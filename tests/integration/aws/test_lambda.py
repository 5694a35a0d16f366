"""The package that `make lambda` builds, in a fresh process that has nothing else on its path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.servers import aws_events
from tests.servers.moto import CREDENTIALS, MotoServer, shared_moto

ROOT = Path(__file__).parents[3]
DRIVER = Path(__file__).with_name("lambda_driver.py")
MOST_MEGABYTES = 50
CLUSTER = "lambda-shop"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lambda")
    wanted = {
        "PYTHON": sys.executable,
        "PYTHON_VERSION": f"{sys.version_info.major}.{sys.version_info.minor}",
        "ARCH": os.uname().machine,
        "OUT": str(folder / "package.zip"),
    }
    script = ROOT / "scripts/build_lambda.sh"
    subprocess.run(["bash", script], env={**os.environ, **wanted}, check=True, timeout=600)
    with zipfile.ZipFile(folder / "package.zip") as package:
        package.extractall(folder / "task")
    return folder


def bare_python(*arguments: str) -> list[str]:
    """Isolated, and without the folders where libraries are installed."""
    return [sys.executable, "-I", "-S", "-W", "error", *arguments]


def run_events(package: Path, moto: MotoServer, events: list[Any]) -> list[dict[str, Any]]:
    """For each event the line of the function's log, or how it failed, with what was left behind."""
    url = f"dynamodb://lambda-state/lambda-logs?region=eu-central-1&endpoint={moto.url}"
    done = subprocess.run(
        bare_python(str(DRIVER), str(package / "task"), url, moto.image, CLUSTER),
        input="\n".join(json.dumps(event) for event in events),
        env={**CREDENTIALS, "AWS_ENDPOINT_URL": moto.url},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    answers: list[dict[str, Any]] = []
    said: dict[str, Any] = {}
    for line in told:
        if "threads" in line:
            answers.append({**said, **line})
            said = {}
        else:
            said = line
    return answers


@pytest.mark.timeout(700)
def test_the_package_is_small_and_holds_the_handler(package: Path) -> None:
    assert (package / "package.zip").stat().st_size < MOST_MEGABYTES * 1024 * 1024
    assert (package / "task/ebbtide/entrypoints/aws_lambda.py").exists()
    assert list((package / "task/ebbtide/entrypoints/__pycache__").glob("aws_lambda.*.pyc"))


def test_the_handler_is_imported_without_what_it_does_not_need(package: Path) -> None:
    unwanted = "typer rich pydantic sqlalchemy boto3 kubernetes numpy highspy"
    code = (
        f"import sys; sys.path.insert(0, {str(package / 'task')!r})\n"
        "from ebbtide.entrypoints.aws_lambda import handler\n"
        f"print([name for name in {unwanted.split()!r} if name in sys.modules])"
    )
    done = subprocess.run(bare_python("-c", code), capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_everything_that_the_configuration_may_ask_for_is_in_the_package(package: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(package / 'task')!r})\n"
        "import ebbtide.bootstrap, ebbtide.config, boto3, ebbtide.adapters.kube.connection\n"
        "import ebbtide.adapters.kube.cluster, ebbtide.adapters.stores.dynamodb.store\n"
        "import ebbtide.adapters.clouds.aws, ebbtide.adapters.clouds.notices, ebbtide.adapters.prometheus\n"
        "import zoneinfo; from ebbtide.core.schedule import check_zone\n"
        "zoneinfo.reset_tzpath(())  # a function has no time zones of its own\n"
        "assert not check_zone('Europe/Berlin')"
    )
    subprocess.run(bare_python("-c", code), check=True, timeout=60)


def test_the_documented_events_are_answered_in_a_fresh_process(package: Path) -> None:
    moto, now = shared_moto(), time.time()
    scheduled = run_events(package, moto, [aws_events.schedule(now)] * 2)
    by_tag = [{"Name": "tag:ebbtide.dev/cluster", "Values": [CLUSTER]}]
    found = moto.client("ec2").describe_instances(Filters=by_tag)["Reservations"]
    (instance_id,) = [raw["InstanceId"] for reservation in found for raw in reservation["Instances"]]
    assert any(instance_id in answer["says"] for answer in scheduled)
    answers = run_events(
        package,
        moto,
        [
            aws_events.interruption(now, instance_id),
            aws_events.interruption(now, instance_id),
            aws_events.rebalance(now),
            aws_events.state_change(now),
            aws_events.maintenance(now),
            aws_events.interruption(now - 5000, instance_id),
            {"source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning"},
            {"source": "aws.s3", "detail-type": "Object Created"},
            "nonsense",
        ],
    )
    expected = [
        f"interruption of {instance_id} received",
        "is already known",
        "not an instance of ours",
        "",
        "not an instance of ours",
        "dropped: spot interruption is",
        "dropped: spot interruption cannot be read",
        "dropped: 'Object Created' of 'aws.s3' is not for Ebbtide",
        "dropped: the event is not a JSON object",
    ]
    assert len(answers) == len(expected)
    for answer, words in zip(answers, expected, strict=True):
        assert "failed" not in answer
        assert words in answer["says"]
    for answer in (*scheduled, *answers):
        assert (answer["threads"], answer["unwanted"], answer["outside"]) == (1, [], [])
