"""The function's kubeconfig, fetched from SSM."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.entrypoints.aws_lambda import fetch_kubeconfig
from ebbtide.errors import Final
from tests.servers.moto import CREDENTIALS, environment, shared_moto

NAME = "/ebbtide/shop/kubeconfig"


@pytest.fixture(autouse=True)
def parameter() -> Iterator[None]:
    moto = shared_moto()
    moto.client("ssm").put_parameter(Name=NAME, Type="SecureString", Value="apiVersion: v1", Overwrite=True)
    with environment({**CREDENTIALS, "AWS_ENDPOINT_URL_SSM": moto.url}):
        yield


def test_a_kubeconfig_is_kept_where_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = fetch_kubeconfig(NAME, tmp_path)
    assert path.read_text() == "apiVersion: v1"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_is_fetched_again_for_each_run(tmp_path: Path) -> None:
    (tmp_path / "ebbtide-kubeconfig").write_text("old")
    assert fetch_kubeconfig(NAME, tmp_path).read_text() == "apiVersion: v1"


def test_a_parameter_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(Final, match="make that parameter"):
        fetch_kubeconfig("/nowhere", tmp_path)
    assert list(tmp_path.iterdir()) == []
