"""How the tests are run: every file once, nothing left out in CI, and a build that is waited for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import lanes
from tests.lanes import Piece, pieces
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


ONCE = """
from pathlib import Path
def test_passes_at_the_second_attempt():
    mark = Path(__file__).with_name("mark")
    there = mark.exists()
    mark.touch()
    assert there
def test_passes():
    pass
"""


@pytest.fixture
def shaky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    monkeypatch.setattr(lanes, "TESTS", tmp_path / "tests")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take seconds to import
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "test_shaky.py"
    path.write_text(ONCE)
    return path


def ran(name: str, path: Path) -> Piece:
    piece = Piece(name, [[sys.executable, "-m", "pytest", path.name]])
    lanes.run(piece)
    assert len(piece.failed) == 1
    return piece


def test_a_browser_test_that_passes_by_itself_is_named_and_does_not_fail_the_run(shaky: Path) -> None:
    piece = ran("e2e", shaky)
    assert lanes.again(piece) == ["test_shaky.py::test_passes_at_the_second_attempt"]
    assert piece.failed == []


def test_a_test_that_fails_twice_fails_the_run(shaky: Path) -> None:
    shaky.write_text("def test_fails():\n    assert False\n")
    piece = ran("e2e", shaky)
    assert lanes.again(piece) == []
    assert len(piece.failed) == 1


@pytest.mark.parametrize("name", ["simulation", "contract"])
def test_a_rule_or_a_race_gets_no_second_attempt(shaky: Path, name: str) -> None:
    piece = ran(name, shaky)
    assert lanes.again(piece) == []
    assert len(piece.failed) == 1


def test_where_many_fail_none_is_run_again(shaky: Path) -> None:
    tests = [f"def test_{number}():\n    assert False\n" for number in range(lanes.FEW + 1)]
    shaky.write_text("\n".join(tests))
    piece = ran("e2e", shaky)
    assert lanes.again(piece) == []
    assert len(piece.failed) == 1
