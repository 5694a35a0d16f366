"""The command that adds an extra fits the way in which Ebbtide was installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ebbtide.extras import Installed, extras_there, how_to_add, how_to_add_library, installed, source_of

WHEEL = "/tmp/ebbtide-0.1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("marker", "command"),
    [
        ("pipx_metadata.json", f"pipx install --force '{WHEEL}[kube]'"),
        ("uv-receipt.toml", f"uv tool install --force '{WHEEL}[kube]'"),
    ],
)
def test_pipx_and_uv_install_again_since_pip_does_not_reach_their_venvs(
    tmp_path: Path, marker: str, command: str
) -> None:
    (tmp_path / marker).touch()
    assert how_to_add("kube", Installed(tmp_path, WHEEL)) == command


def test_uvx_is_given_the_extra_each_time(tmp_path: Path) -> None:
    here = Installed(tmp_path / "archive-v0" / "7WW2", WHEEL)
    assert how_to_add("kube", here) == f"uvx --from '{WHEEL}[kube]' ebbtide"


def test_a_venv_is_named_with_its_python_and_one_that_uv_made_has_no_pip(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    assert how_to_add("aws", Installed(tmp_path)) == f"{python} -m pip install 'ebbtide[aws]'"
    folder = Installed(tmp_path, "/src/ebbtide", editable=True)
    assert how_to_add("aws", folder) == f"{python} -m pip install -e '/src/ebbtide[aws]'"
    bare = Installed(tmp_path, WHEEL, has_pip=False)
    assert how_to_add("aws", bare) == f"uv pip install --python {python} '{WHEEL}[aws]'"


def test_extras_that_are_there_are_kept(tmp_path: Path) -> None:
    (tmp_path / "pipx_metadata.json").touch()
    here = Installed(tmp_path, WHEEL, extras=frozenset({"kube", "aws"}))
    assert how_to_add("api", here) == f"pipx install --force '{WHEEL}[api,aws,kube]'"


def test_a_library_that_no_extra_has_goes_into_the_same_venv(tmp_path: Path) -> None:
    here = Installed(tmp_path, WHEEL, extras=frozenset({"foresight"}))
    assert how_to_add_library("ray", here) == f"{tmp_path}/bin/python -m pip install ray"
    (tmp_path / "uv-receipt.toml").touch()
    assert how_to_add_library("ray", here) == f"uv tool install --force --with ray '{WHEEL}[foresight]'"
    (tmp_path / "pipx_metadata.json").touch()
    assert how_to_add_library("ray", here) == "pipx inject ebbtide ray"
    fleeting = Installed(tmp_path / "archive-v0" / "7WW2", WHEEL)
    assert how_to_add_library("ray", fleeting) == f"uvx --with ray --from '{WHEEL}' ebbtide"


def test_an_extra_is_there_when_nothing_of_it_is_missing() -> None:
    requires = [
        "typer>=0.12",
        "pytest>=1 ; extra == 'one'",
        "pytest>=1; extra == 'two'",
        "no-such-library>=1; extra == 'two'",
        "ebbtide[one,two]; extra == 'all'",
    ]
    assert extras_there(requires) == {"one"}


def test_where_it_came_from_is_read_from_what_the_installer_wrote() -> None:
    assert source_of("{}") == ("ebbtide", False)
    assert source_of('{"url": "file:///a%20b/x.whl", "archive_info": {}}') == ("/a b/x.whl", False)
    assert source_of('{"url": "file:///src", "dir_info": {"editable": true}}') == ("/src", True)
    assert source_of('{"url": "https://x/y.whl"}') == ("https://x/y.whl", False)


def test_this_installation_is_known() -> None:
    assert installed().prefix == Path(sys.prefix)
    assert "[kube]" in how_to_add("kube", Installed(Path(sys.prefix)))
