from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.shell import Shell
from tests.servers.control_plane import Unavailable, ensure_debian
from tests.servers.having import leave_out


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_report_is_written_as_a_page_and_as_a_picture(shell: Shell) -> None:
    try:
        ensure_debian("chromium", "chromium")
    except Unavailable as missing:
        leave_out(str(missing))
    shell.run("once")
    told = shell.run("report", "--html", "report.html", "--png", "report.png")
    assert "is in report.html" in told.out
    assert "Cost an hour" in (shell.folder / "report.html").read_text()
    assert (shell.folder / "report.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_browser_it_says_what_to_install_and_writes_nothing(shell: Shell) -> None:
    shell.run("once")
    told = shell.run(
        "report", "--html", "report.html", "--png", "report.png", code=2, environ={"PATH": "/nonexistent"}
    )
    assert "Install the package chromium" in told.err
    assert not list(shell.folder.glob("report*"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "give --html FILE, --png FILE, or both"),
        (("--html", "r.html", "--from", "yesterday"), "is not a day"),
        (("--html", "r.html", "--from", "2026-02-02", "--to", "2026-02-01"), "is after"),
        (("--html", "r.html", "--from", "2999-01-01"), "still to come"),
        (("--html", "none/r.html"), "there is no folder none"),
    ],
)
def test_bad_input_is_said_and_nothing_is_written(shell: Shell, options: tuple[str, ...], says: str) -> None:
    shell.run("once")
    assert says in shell.run("report", *options, code=2).err
    assert not list(shell.folder.glob("r.html"))


def test_before_anything_ran_there_is_nothing_to_report(shell: Shell) -> None:
    told = shell.run("report", "--html", "report.html", code=1)
    assert "nothing has run here yet" in told.err
    assert "nothing was written" in told.err
    assert not list(shell.folder.iterdir())
