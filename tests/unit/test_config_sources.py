"""Where a value comes from: defaults, file, environment; and that every setting can be given."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from ebbtide.config.document import parse_document
from ebbtide.config.load import Config, build_config, key_of, load
from ebbtide.config.problems import leaf_fields, path_text, variable_of
from ebbtide.config.reference import with_reference
from ebbtide.errors import ConfigError
from ebbtide.model.settings import Settings

ROOT = Path(__file__).parents[2]

SPEC_DEFAULTS = {
    "CPU_UP": 0.70, "CPU_DOWN": 0.30, "PENDING_UP_SEC": 180, "IDLE_DOWN_SEC": 600, "COOLDOWN_UP_SEC": 300,
    "COOLDOWN_DOWN_SEC": 600, "JOIN_TIMEOUT_SEC": 600, "DRAIN_TIMEOUT_SEC": 300, "MIN_WORKERS": 2,
    "MAX_WORKERS": 10, "MAX_BATCH_UP": 2, "MAX_BATCH_DOWN": 1, "PODS_PER_NODE": 10, "LOCK_TTL_SEC": 300,
    "SPOT_LOCK_TTL_SEC": 180, "STUCK_SEC": 900, "SPOT_DRAIN_SEC": 110,
    "DRAIN_ATTEMPTS": 3, "BUDGET_FRACTION": 0.10, "UNREADY_FRACTION": 0.45, "UNREADY_COUNT": 3,
    "STATE_TABLE": "k3s-autoscaler-state",
}  # fmt: skip


def read(text: str, **environ: str) -> Config:
    return build_config(parse_document(text, "ebbtide.yaml"), environ)


def effective(config: Config) -> dict[str, tuple[object, str]]:
    return {found.key: (found.value, found.origin) for found in config.effective}


def test_every_setting_has_a_key() -> None:
    keys = {path_text(path) for path, _ in leaf_fields()}
    names = {key_of(field.name) for field in fields(Settings)} - {
        "cluster",
        "consolidation",
        "forecast",
        "waking",
        "awake_min_workers",
    }
    assert names <= keys
    assert "cluster.name" in keys


def test_defaults_are_those_of_the_contract() -> None:
    shown = {key.upper(): value for key, (value, _) in effective(read("")).items()}
    assert {name: shown[name] for name in SPEC_DEFAULTS} == SPEC_DEFAULTS
    config = read("")
    assert config.settings == Settings(pools=config.settings.pools)
    assert config.store_url == "sqlite:///ebbtide.db"
    assert config.interval_seconds == 60


def test_without_pools_a_simulated_cluster_gets_one() -> None:
    (pool,) = read("").settings.pools
    assert len(pool.zones) > 1
    assert pool.types


def test_the_environment_wins_over_the_file_and_the_file_over_the_default() -> None:
    config = read("cpu_up: 0.8\ncpu_down: 0.2", CPU_UP="0.9")
    assert (config.settings.cpu_up, config.settings.cpu_down) == (0.9, 0.2)
    shown = effective(config)
    assert shown["cpu_up"] == (0.9, "environment CPU_UP")
    assert shown["cpu_down"] == (0.2, "file ebbtide.yaml line 2")
    assert shown["min_workers"] == (2, "default")


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("MIN_WORKERS", " 3 ", "min_workers", 3),
        ("CPU_UP", "1", "cpu_up", 1.0),
        ("EVICT_LOCAL_STORAGE", "TRUE", "evict_local_storage", True),
        (
            "MOVABLE_SYSTEM_WORKLOADS",
            "coredns, metrics-*",
            "movable_system_workloads",
            ("coredns", "metrics-*"),
        ),
        ("STORE_URL", "sqlite:///x.db", "store.url", "sqlite:///x.db"),
        ("CLUSTER_NAME", "shop", "cluster.name", "shop"),
        ("LOG_FORMAT", "json", "log_format", "json"),
        ("LOGS_TABLE", "my-logs", "logs_table", "my-logs"),
        (
            "POOLS",
            '[{"name": "a", "types": ["cpx22"], "zones": ["z"]}]',
            "pools",
            ["a: cpx22 in z; on-demand; 0 or more"],
        ),
        (
            "POOLS",
            "- name: a\n  types: [cpx22]\n  zones: [z]",
            "pools",
            ["a: cpx22 in z; on-demand; 0 or more"],
        ),
    ],
)
def test_a_variable_is_read_as_the_kind_of_its_key(variable: str, text: str, key: str, value: object) -> None:
    assert effective(read("", **{variable: text}))[key] == (value, f"environment {variable}")


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("MIN_WORKERS", "two", '"two" is not allowed; allowed: a whole number from 0 to 100000'),
        ("MIN_WORKERS", "1_0", '"1_0" is not allowed'),
        ("MIN_WORKERS", "12", "12 is above max_workers (10)"),
        ("IDLE_DOWN_SEC", "-1", "-1 is not allowed; allowed: a whole number of seconds"),
        ("CPU_UP", "nan", '"nan" is not allowed'),
        ("EVICT_LOCAL_STORAGE", "on", '"on" is not allowed; allowed: true or false'),
        ("LOG_FORMAT", "xml", '"xml" is not allowed; allowed: plain or json'),
        ("STORE_URL", "mysql://u:hunter2@h/d", '"mysql://***@h/d" is not a known store'),
        ("POOLS", "[", '"[" is not allowed; allowed: a list'),
    ],
)
def test_a_wrong_variable_is_refused_by_its_own_name(variable: str, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read("min_workers: 3", **{variable: text})
    assert f"environment variable {variable}: {says}" in str(caught.value)


def test_an_empty_variable_counts_as_unset_whichever_key_it_is_of() -> None:
    every = {variable_of(path): " " for path, _ in leaf_fields()}
    config = read("min_workers: 3", **every)
    assert config.effective == read("min_workers: 3").effective
    assert config.settings == read("min_workers: 3").settings


def test_a_wrong_pool_in_the_environment_names_variable_and_place() -> None:
    with pytest.raises(ConfigError, match=r"environment variable POOLS, pools\[0\]\.types: is empty"):
        read("", POOLS="[{name: a, types: [], zones: [z]}]")


def test_a_nested_variable_leaves_the_rest_of_its_section() -> None:
    config = read("cluster: {name: shop, kind: simulator}", CLUSTER_NAME="stall")
    assert config.settings.cluster == "stall"
    assert effective(config)["cluster.kind"] == ("simulator", "file ebbtide.yaml line 1")


def test_a_password_is_masked_where_values_are_shown() -> None:
    config = read("store: {url: 'postgresql+psycopg://ebb:hunter2@h/d'}")
    assert config.store_url == "postgresql+psycopg://ebb:hunter2@h/d"
    assert effective(config)["store.url"][0] == "postgresql+psycopg://***@h/d"


def test_the_file_is_the_named_one_or_that_of_the_variable_or_that_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(None, {}).source == ""
    for name, workers in (("ebbtide.yaml", 3), ("other.yaml", 4), ("third.yaml", 5)):
        (tmp_path / name).write_text(f"min_workers: {workers}")
    assert load(None, {}).settings.min_workers == 3
    assert load(None, {"EBBTIDE_CONFIG": "other.yaml"}).settings.min_workers == 4
    assert load(Path("third.yaml"), {"EBBTIDE_CONFIG": "other.yaml"}).settings.min_workers == 5
    assert load(None, {"EBBTIDE_CONFIG": ""}).settings.min_workers == 3


def test_a_named_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read \\(No such file"):
        load(tmp_path / "absent.yaml", {})
    with pytest.raises(ConfigError, match="cannot be read \\(Is a directory"):
        load(tmp_path, {})
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not text in UTF-8"):
        load(binary, {})


def test_the_page_of_all_keys_is_in_step_with_the_code() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    renew = "run: python -m ebbtide.config.reference docs/configuration.md"
    assert with_reference(page) == page, renew


def test_every_variable_is_documented() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert all(f"`{variable_of(path)}`" in page for path, _ in leaf_fields())
