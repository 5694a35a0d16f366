"""Scale to zero from the configuration alone: `ebbtide once` and `ebbtide run` on the simulated cluster."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.bootstrap import SystemClock
from ebbtide.model.idle import IdleState, Phase
from tests.e2e.shell import COMMAND, Shell, clean_environment

CONFIG = """
scale_to_zero: {idle_threshold: 1s, keep_alive: 0s, check_interval: 1s}
metrics_addr: "off"
policies:
  - name: dns
    target: {workloads: [{namespace: kube-system, name: coredns}]}
    scale_to_zero: true
    signals: [{kind: reported}]
    grace_seconds: 0
  - name: web
    target: {workloads: [{name: web}]}
    scale_to_zero: true
    signals: [{kind: reported}]
    grace_seconds: 0
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "ebbtide.yaml").write_text(CONFIG)
    return Shell(tmp_path)


def states(folder: Path) -> dict[str, IdleState]:
    store = SqlStore.open(f"sqlite:///{folder / 'ebbtide.db'}", SystemClock(), "cluster")
    try:
        rows = store.policies()
        found = {policy.name: rows.find_state(policy.id) for policy in rows.list_policies()}
    finally:
        store.close()
    return {name: state for name, state in found.items() if state is not None}


def test_once_applies_the_policies_and_puts_what_is_idle_to_zero(shell: Shell) -> None:
    says = ""
    for _ in range(20):
        answer = json.loads(shell.run("once", "--json").out)
        says = answer["policies"]
        assert says.startswith("2 policies")
        if "1 fell" in says:
            break
        time.sleep(0.3)
    assert "dns: Deployment kube-system/coredns is at zero" in says
    known = states(shell.folder)
    assert known["dns"].phase is Phase.ZERO
    assert known["web"].phase is Phase.IDLE
    assert "web-demand" in known["web"].left_alone


def test_run_does_the_same_next_to_its_ticks(shell: Shell) -> None:
    process = subprocess.Popen(
        [COMMAND, "run"],
        cwd=shell.folder,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.time() + 60
        while (
            not (shell.folder / "ebbtide.db").exists()
            or "dns" not in (known := states(shell.folder))
            or (known["dns"].phase is not Phase.ZERO)
        ):
            assert time.time() < deadline
            assert process.poll() is None
            time.sleep(0.3)
    finally:
        process.send_signal(signal.SIGTERM)
        told, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "policy dns: created, as ebbtide.yaml says" in told
    assert "Stopped" in told
