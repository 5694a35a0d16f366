"""How the tests are run: every file once, nothing left out in CI, and a build that is waited for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lanes import pieces
from tests.servers import control_plane
from tests.servers.having import ALL, control_plane_being_built, leave_out

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent


def runs(command: list[str], path: str) -> bool:
    folders = [word for word in command if word.startswith("tests/")]
    ignored = [word.removeprefix("--ignore=") for word in command if word.startswith("--ignore=")]
    return _below(path, folders) and not _below(path, ignored)


def _below(path: str, folders: list[str]) -> bool:
    return any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in folders)


def test_every_file_of_tests_is_run_once() -> None:
    commands = [command for piece in pieces([]) for command in piece.commands if "pytest" in command]
    files = [str(path.relative_to(ROOT)) for path in TESTS.rglob("test_*.py")]
    assert len(files) > 100
    assert {path: sum(runs(command, path) for command in commands) for path in files} == dict.fromkeys(
        files, 1
    )


def test_what_cannot_be_had_is_skipped_here_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ALL, raising=False)
    with pytest.raises(pytest.skip.Exception, match="not run: there is no etcd"):
        leave_out("there is no etcd")
    monkeypatch.setenv(ALL, "1")
    with pytest.raises(pytest.fail.Exception, match="must be run here, and cannot: there is no etcd"):
        leave_out("there is no etcd")


def test_ci_leaves_nothing_out() -> None:
    assert f"export {ALL}=1" in (ROOT / ".ci" / "run").read_text()


BUILD = """
import sys, time
from pathlib import Path
folder = Path(sys.argv[1])
sys.stdin.read(1)
folder.mkdir(parents=True)
for name in sys.argv[2:]:
    (folder / name).touch()
"""


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path))
    return tmp_path / f"kubernetes-{control_plane.VERSION}"


@pytest.mark.parametrize("built", [control_plane.NEEDED, control_plane.NEEDED[:1]], ids=["whole", "failed"])
def test_a_build_that_is_running_is_waited_for_until_it_ends(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, built: tuple[str, ...]
) -> None:
    command = [sys.executable, "-c", BUILD, str(empty_cache), *built]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as builder:
        monkeypatch.setenv(control_plane.BUILDER, str(builder.pid))
        assert builder.stdin is not None
        builder.stdin.close()
        control_plane.await_build.__wrapped__()
        assert control_plane.complete() == (built == control_plane.NEEDED)
    if built != control_plane.NEEDED:
        with pytest.raises(control_plane.Unavailable, match="its build has failed"):
            control_plane.ensure_control_plane(build=False)


def test_where_there_is_nothing_to_build_nothing_is_said(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with control_plane_being_built() as says:
        assert says == ""
