"""The API of a process that runs, and of one that only serves: with metrics, policies and wakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ebbtide.entrypoints.api.site import digest_of
from tests.e2e.shell import COMMAND, Shell, clean_environment

TOKEN = "ebb_test"
CONFIG = f"""
interval_sec: 1
api:
  listen: 127.0.0.1:0
  tokens: [{{name: test, scope: admin, sha256: {digest_of(TOKEN)}}}]
policies:
  - name: web
    target: {{workloads: [{{name: web}}]}}
    scale_to_zero: true
"""


@contextmanager
def started(shell: Shell, command: str, metrics: str = "off") -> Iterator[tuple[str, list[str]]]:
    """The address of its API, and the lines it says; ended gracefully."""
    process = subprocess.Popen(
        [COMMAND, command],
        cwd=shell.folder,
        env=clean_environment({"METRICS_ADDR": metrics}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: list[str] = []
    try:
        assert process.stdout is not None
        url = ""
        for line in process.stdout:
            lines.append(line)
            if line.startswith("Pages and API: "):
                url = line.removeprefix("Pages and API: ").split()[0]
            if url and (command == "serve" or "nothing to do" in line):
                break
        yield url, lines
        os.kill(process.pid, signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        lines.append(out)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err


def ask(url: str, method: str = "GET", body: object = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read().decode()
            is_json = "json" in answer.headers["content-type"]
            return answer.status, json.loads(text) if is_json else text
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    shell.write("ebbtide.yaml", CONFIG)
    return shell


def test_the_runner_serves_the_api_with_its_own_metrics_and_a_server_next_to_it_can_wake(
    shell: Shell,
) -> None:
    with started(shell, "run") as (url, lines):
        assert any("policy web: created" in line for line in lines)
        assert ask(f"{url}healthz") == (200, "ok\n")
        assert ask(f"{url}readyz") == (200, "ok\n")
        _, text = ask(f"{url}metrics")
        assert 'ebbtide_ticks_total{cluster="cluster",result="acted"}' in text
        assert 'philotes_scaling_is_scaled_to_zero{cluster="cluster",policy="web"} 0.0' in text
        _, costs = ask(f"{url}api/v1/costs")
        assert len(costs["points"]) >= 2, "the noted one, and the present one"
        (policy,) = ask(f"{url}api/v1/scaling/policies")[1]["policies"]
    with started(shell, "serve") as (url, _):
        code, woken = ask(
            f"{url}api/v1/scaling/policies/{policy['id']}/wake", "POST", {"wait_for_ready": True}
        )
        assert (code, woken["status"], woken["ready"]) == (200, "already_running", True)
        assert 'policy="web"' in ask(f"{url}metrics")[1]
        assert ask(f"{url}readyz") == (200, "ok\n")
