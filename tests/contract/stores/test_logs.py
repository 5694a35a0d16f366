"""The log only grows: each entry once, never changed, the newest first."""

from __future__ import annotations

import random

import pytest

from ebbtide.model.log import LogEntry, LogKind
from ebbtide.ports import Store
from tests.contract.stores.examples import make_entry
from tests.contract.stores.lab import StoreLab


def ids(entries: object) -> list[str]:
    assert isinstance(entries, list)
    return [entry.id for entry in entries]


def test_a_log_starts_empty(store: Store) -> None:
    assert store.read_log() == []
    assert store.find_entry("1") is None


def test_entries_come_back_newest_first_in_whatever_order_they_came(store: Store) -> None:
    store.append([make_entry("2"), make_entry("3")])
    store.append([make_entry("1")])
    store.append([make_entry("10")])
    assert ids(store.read_log()) == ["3", "2", "10", "1"]


def test_ids_are_ordered_by_their_bytes(store: Store) -> None:
    expected = sorted(["a", "B", "é", "z", "Z", "-", "~", "a-b", "a#b", "ab"])
    store.append([make_entry(entry_id) for entry_id in expected])
    assert ids(store.read_log()) == expected[::-1]


def test_an_entry_comes_back_as_it_was(store: Store) -> None:
    entry = LogEntry(
        "1",
        1_730_000_000,
        LogKind.DRAIN_RESULT,
        "“drained” 3 pods ☂",
        "i-aaa",
        {"a": 1, "b": 0.41, "c": [None, True, {"d": "é"}], "big": 2**53, "": "", "none": None},
    )
    store.append([entry])
    assert store.find_entry("1") == entry
    assert store.read_log() == [entry]


def test_an_entry_that_is_there_is_left_as_it_is(store: Store) -> None:
    store.append([make_entry("1", subject="first")])
    store.append([make_entry("1", subject="second", x=1), make_entry("2")])
    assert store.read_log() == [make_entry("2"), make_entry("1", subject="first")]
    assert ids(store.read_log(subject="first")) == ["1"]
    assert ids(store.read_log(subject="second")) == []


def test_of_entries_with_one_id_in_one_call_the_first_counts(store: Store) -> None:
    store.append([make_entry("1", subject="first"), make_entry("1", subject="second")])
    assert store.read_log() == [make_entry("1", subject="first")]


def test_appending_nothing_is_nothing(store: Store) -> None:
    store.append([])
    assert store.read_log() == []


@pytest.mark.parametrize(
    ("kinds", "subject", "limit", "expected"),
    [
        ((), "", 100, "987654321"),
        ((), "", 3, "987"),
        ((LogKind.ALARM,), "", 100, "963"),
        ((LogKind.ALARM,), "", 2, "96"),
        ((LogKind.ALARM, LogKind.DECISION), "", 100, "976431"),
        ((LogKind.ALARM, LogKind.DECISION), "", 4, "9764"),
        ((), "a", 100, "8642"),
        ((), "a", 1, "8"),
        ((), "a#b", 100, "97531"),
        ((LogKind.ALARM,), "a", 100, "6"),
        ((LogKind.ALARM, LogKind.EFFECT), "a", 1, "8"),
        ((LogKind.SWITCH,), "", 100, ""),
        ((), "nothing", 100, ""),
        ((), "", 0, ""),
    ],
)
def test_the_log_is_read_by_kind_and_subject(
    store: Store, kinds: tuple[LogKind, ...], subject: str, limit: int, expected: str
) -> None:
    all_kinds = (LogKind.ALARM, LogKind.DECISION, LogKind.EFFECT)
    store.append([make_entry(str(n), all_kinds[n % 3], "a" if n % 2 == 0 else "a#b") for n in range(1, 10)])
    assert ids(store.read_log(kinds, subject, limit)) == list(expected)


def test_entries_of_different_clusters_do_not_meet(store: Store, lab: StoreLab, cluster: str) -> None:
    other = lab.open(f"{cluster}-other")
    store.append([make_entry("1", subject="mine")])
    other.append([make_entry("1", subject="theirs"), make_entry("2")])
    assert store.read_log() == [make_entry("1", subject="mine")]
    assert other.find_entry("1") == make_entry("1", subject="theirs")
    other.close()


def test_entries_are_written_with_the_record(store: Store) -> None:
    store.write(store.load(), None, [make_entry("1"), make_entry("2", LogKind.TRANSITION)])
    assert ids(store.read_log()) == ["2", "1"]


def test_an_entry_that_is_there_does_not_stop_a_write(store: Store) -> None:
    store.append([make_entry("1", subject="first"), make_entry("3")])
    entries = [make_entry("1", subject="second"), make_entry("2"), make_entry("3")]
    assert store.write(store.load(), None, entries).rev == 1
    assert ids(store.read_log()) == ["3", "2", "1"]
    assert store.find_entry("1") == make_entry("1", subject="first")


def test_a_decision_with_a_megabyte_of_inputs_comes_back_whole(store: Store) -> None:
    noise = random.Random(1)
    pods = [{"name": f"pod-{noise.getrandbits(600):x}", "cpu": noise.random()} for _ in range(8000)]
    entry = make_entry("1", pods=pods)
    store.append([make_entry("0")])
    store.write(store.load(), None, [entry, make_entry("2")])
    assert store.find_entry("1") == entry
    assert store.read_log() == [make_entry("2"), entry, make_entry("0")]


def test_a_large_entry_that_is_there_is_left_as_it_is(store: Store) -> None:
    first = make_entry("1", pods=[f"pod-{n:x}" * 9 for n in range(3000)])
    store.append([first])
    store.append([make_entry("1", pods=[f"other-{n:x}" * 9 for n in range(3000)])])
    assert store.find_entry("1") == first


def test_three_hundred_entries_in_one_write_are_all_there(store: Store) -> None:
    entries = [make_entry(f"{number:04d}") for number in range(300)]
    record = store.write(store.load(), None, entries)
    assert ids(store.read_log(limit=1000)) == [entry.id for entry in reversed(entries)]
    record = store.write(record, None, [make_entry(f"x{number:04d}") for number in range(300)])
    assert len(store.read_log(limit=1000)) == 600
    assert store.load() == record
