"""Tokens, names and label values that are derived from a slot."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.adapters.clouds.identity import (
    LAUNCH_HASH,
    client_token,
    label_value,
    read_label_value,
    server_name,
    tags_of,
)
from ebbtide.errors import Final
from ebbtide.model.effect import Launch
from tests.builders import make_pool, make_slot

LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
HOST = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def test_a_short_key_is_its_own_token_so_a_person_can_read_it() -> None:
    assert client_token("shop", "1730000300-abc-0") == "shop/1730000300-abc-0"


@given(st.text(max_size=80), st.text(max_size=80))
def test_a_token_is_ascii_and_short_enough_for_ec2(cluster: str, key: str) -> None:
    token = client_token(cluster, key)
    assert len(token) <= 64
    assert token.isascii()
    assert token == client_token(cluster, key)


def test_long_keys_that_differ_only_at_the_end_have_different_tokens() -> None:
    assert client_token("shop", "x" * 90 + "0") != client_token("shop", "x" * 90 + "1")


@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=80))
def test_a_server_name_is_always_a_host_name(cluster: str, pool: str, key: str) -> None:
    assert HOST.fullmatch(server_name(cluster, pool, key))


def test_a_server_name_begins_with_what_a_person_knows() -> None:
    assert server_name("shop", "general", "op-0").startswith("shop-general-")
    assert server_name("shop", "general", "op-0") != server_name("shop", "general", "op-1")


@given(st.text(max_size=5))
def test_a_label_value_is_allowed_and_can_be_read_back(text: str) -> None:
    value = label_value(text)
    assert LABEL.fullmatch(value)
    assert read_label_value(value) == text


@pytest.mark.parametrize("text", ["_", "x_", "xx_", "x", "-a-", ".", "spot:4711-0r1", "a_b", "é"])
def test_label_values_that_look_alike_are_told_apart(text: str) -> None:
    assert read_label_value(label_value(text)) == text


def test_an_ordinary_name_stays_as_it_is() -> None:
    assert label_value("1730000300-abc.d-0r2") == "1730000300-abc.d-0r2"


def test_a_name_that_does_not_fit_is_refused() -> None:
    with pytest.raises(Final, match="shorter"):
        label_value("x" * 64)


def test_an_instance_carries_the_hash_of_what_its_pool_launches() -> None:
    asked = Launch(make_slot(), "op")
    assert tags_of(asked, "shop", (make_pool(launch_hash="h1"),))[LAUNCH_HASH] == "h1"
    assert LAUNCH_HASH not in tags_of(asked, "shop", (make_pool(),))
    assert LAUNCH_HASH not in tags_of(asked, "shop", (make_pool("other", launch_hash="h1"),))
