"""Wrong values of single keys: each is refused with its place, its value and what is allowed."""

from __future__ import annotations

import pytest

from ebbtide.config.document import parse_document
from ebbtide.config.load import Config, build_config
from ebbtide.errors import ConfigError


def read(text: str, **environ: str) -> Config:
    return build_config(parse_document(text, "ebbtide.yaml"), environ)


def refusal(text: str, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text, **environ)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("cpu_upp: 0.5", "line 1, cpu_upp: unknown key; did you mean cpu_up?"),
        ("CPU_UP: 0.5", "line 1, CPU_UP: unknown key; did you mean cpu_up?"),
        ("pending_up_seconds: 9", "line 1, pending_up_seconds: unknown key; did you mean pending_up_sec?"),
        ("url: sqlite:///a.db", "line 1, url: unknown key; did you mean store.url?"),
        ("zzz: 1", "line 1, zzz: unknown key; `ebbtide config show` lists all keys"),
        ("cluster: {nome: a}", "line 1, cluster.nome: unknown key; did you mean name?"),
        ("store: {zzz: a}", "line 1, store.zzz: unknown key; known here: url"),
        ("1: 2", "line 1, 1: unknown key"),
        ("cpu_up: 1.5", "line 1, cpu_up: 1.5 is not allowed; allowed: a number from 0 to 1"),
        ("cpu_up: .nan", 'line 1, cpu_up: ".nan" is not allowed; allowed: a number from 0 to 1'),
        ("cpu_up: '0.5'", 'line 1, cpu_up: "0.5" is not allowed; allowed: a number from 0 to 1'),
        (
            "\nidle_down_sec: -4",
            "line 2, idle_down_sec: -4 is not allowed; allowed: a whole number of seconds",
        ),
        ("idle_down_sec: 2.5", "idle_down_sec: 2.5 is not allowed; allowed: a whole number of seconds"),
        ("idle_down_sec: 10:00", 'idle_down_sec: "10:00" is not allowed'),
        ("idle_down_sec: 10m", 'idle_down_sec: "10m" is not allowed'),
        ("min_workers: true", "min_workers: true is not allowed; allowed: a whole number from 0 to 100000"),
        ("min_workers: 010", 'min_workers: "010" is not allowed; allowed: a whole number'),
        ("min_workers:", "min_workers: is empty; allowed: a whole number from 0 to 100000"),
        ("max_workers: 0", "max_workers: 0 is not allowed; allowed: a whole number from 1 to 100000"),
        ("max_workers: 1e99", "max_workers: 1e+99 is not allowed"),
        ("evict_local_storage: yes", 'evict_local_storage: "yes" is not allowed; allowed: true or false'),
        ("movable_system_workloads: coredns", '"coredns" is not allowed; allowed: a list of names'),
        ("movable_system_workloads: [1]", "movable_system_workloads[0]: 1 is not allowed; allowed: text"),
        ("log_format: xml", 'log_format: "xml" is not allowed; allowed: plain or json'),
        ("cluster: {kind: gcp}", 'cluster.kind: "gcp" is not allowed; allowed: simulator'),
        ("cluster: {name: 'a b'}", 'cluster.name: "a b" is not allowed; allowed: letters, digits'),
        ("cluster: here", 'cluster: "here" is not allowed; allowed: the keys name, kind, file'),
        ("store: {url: mysql://h/d}", '"mysql://h/d" is not a known store; allowed: sqlite:///FILE'),
        ("store: {url: 'sqlite://'}", "names no file to keep the record in; allowed: sqlite:///FILE"),
        ("store: {url: 'sqlite:///:memory:'}", "names no file to keep the record in"),
        ("store: {url: 'http://[x'}", "is not a URL; allowed: sqlite:///FILE"),
        (
            "lock_ttl_sec: 901",
            "lock_ttl_sec: 901 is not allowed; allowed: a whole number of seconds from 1 to 900",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_place_value_and_what_is_allowed(text: str, line: str) -> None:
    assert line in refusal(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("min_workers: 12", "min_workers: 12 is above max_workers (10); allowed: 0 to 10"),
        ("cpu_down: 0.7", "cpu_down: 0.7 is not below cpu_up (0.7)"),
        ("drain_timeout_sec: 901", "drain_timeout_sec: 901 is above stuck_sec (900)"),
        ("lock_ttl_sec: 10", "lock_ttl_sec: 10 is not above lease_margin_sec (10)"),
        ("spot_lock_ttl_sec: 5", "spot_lock_ttl_sec: 5 is not above lease_margin_sec (10)"),
        ("backoff_sec: 4000", "backoff_sec: 4000 is above backoff_max_sec (3600)"),
        ("interval_sec: 400", "interval_sec: 400 is above max_tick_gap_sec (300)"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(text: str, says: str) -> None:
    assert says in refusal(text)


@pytest.mark.parametrize("seconds", [0, 4])
def test_a_node_must_settle_for_as_long_as_a_late_bind_takes(seconds: int) -> None:
    says = refusal(f"settle_sec: {seconds}")
    assert f"line 1, settle_sec: {seconds} is not allowed; allowed: a whole number of seconds from 5" in says
    assert read("settle_sec: 5").settings.settle_seconds == 5


def test_all_problems_are_said_at_once_in_the_order_of_the_file() -> None:
    lines = refusal("min_workers: 12\ncpu_upp: 1\nidle_down_sec: -1", CPU_UP="high").splitlines()
    assert lines[0] == "the configuration has 4 problems; nothing was touched."
    assert lines[1].startswith('  environment variable CPU_UP: "high" is not allowed')
    assert [line.split(",")[0] for line in lines[2:5]] == [
        "  ebbtide.yaml line 1",
        "  ebbtide.yaml line 2",
        "  ebbtide.yaml line 3",
    ]
    assert lines[5] == "Correct this and run `ebbtide config check`."


def test_a_key_is_not_compared_with_another_that_is_itself_wrong() -> None:
    said = refusal("min_workers: 12\nmax_workers: many")
    assert 'max_workers: "many"' in said
    assert "min_workers" not in said


def test_a_password_is_never_printed() -> None:
    for text in (
        "store: 'postgresql://ebb:hunter2@h/d'",
        "store: {url: 'mysql://ebb:hunter2@h/d'}",
        "store: {url: 'mysql://h/d?password=hunter2'}",
        "log_format: 'x://ebb:hunter2@h'",
    ):
        assert "hunter2" not in refusal(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cpu_up: [", "is not valid YAML"),
        ("a: b: c", "line 1, column 5, is not valid YAML: mapping values are not allowed here"),
        ("- cpu_up", "must hold keys with values, such as `min_workers: 2`"),
        ("just text", "must hold keys with values"),
        ("cpu_up: 0.6\ncpu_up: 0.8", "line 2, cpu_up: the key stands twice (first on line 1)"),
        ("cpu_up: 0.6\n---\ncpu_up: 0.8", "is not valid YAML"),
        ("cpu_up: !!python/object:os.system x", "is not valid YAML"),
        ("? [a]\n: b", "is not valid YAML"),
    ],
)
def test_a_file_that_is_not_yaml_is_refused_with_the_place(text: str, says: str) -> None:
    said = refusal(text)
    assert says in said
    assert "nothing was touched" in said


def test_an_empty_file_means_the_defaults() -> None:
    assert read("").settings == read("# nothing\n").settings
