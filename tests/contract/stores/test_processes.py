"""Eight processes at once: nothing acknowledged is lost, no token has two holders, none goes back."""

from __future__ import annotations

import multiprocessing
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from ebbtide.model.log import LogEntry
from tests.contract.stores.hammer import PROCESSES, Acknowledged, MemoryServer, hammer, open_place
from tests.contract.stores.lab import DynamoLab, MemoryLab, PostgresLab, SqliteLab, StoreLab


@contextmanager
def place_of(lab: StoreLab) -> Iterator[str]:
    """Where other processes find the store of this lab, in real time."""
    match lab:
        case SqliteLab():
            yield lab.url
        case PostgresLab():
            yield lab.server.url(lab.database)
        case DynamoLab():
            yield lab.server.url(*lab.tables)
        case MemoryLab():
            with MemoryServer(authkey=b"contract") as server:
                yield f"memory:{server.address!s}"
        case _:
            raise TypeError(lab)


@pytest.mark.timeout(180)
def test_eight_processes_lose_nothing_and_never_share_a_token(
    lab: StoreLab, cluster: str, tmp_path: Path
) -> None:
    with place_of(lab) as place:
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(PROCESSES, mp_context=spawn) as processes:
            running = [
                processes.submit(hammer, place, cluster, number, tmp_path) for number in range(PROCESSES)
            ]
            reports = [process.result() for process in running]
        store = open_place(place, cluster)
        record, log = store.load(), list(store.read_log(limit=100_000))
        store.close()
    _holders_are_alone(reports)
    _acknowledged_is_there(reports, log)
    _writes_follow_one_another(log, record.rev)
    assert record.lock_token >= max(token for report in reports for token in report.tokens)
    assert len([report for report in reports if report.writes]) > 1, "the lease never changed hands"
    assert sum(report.refused for report in reports) > 0, "no stalled process was turned away"


def _holders_are_alone(reports: list[Acknowledged]) -> None:
    holders = defaultdict(set)
    for report in reports:
        assert report.tokens == sorted(report.tokens), "a token went back"
        for token in report.tokens:
            holders[token].add(report.owner)
    assert all(len(owners) == 1 for owners in holders.values())


def _acknowledged_is_there(reports: list[Acknowledged], log: list[LogEntry]) -> None:
    entries = {entry.id: entry for entry in log}
    for report in reports:
        assert set(report.appended) <= entries.keys()
        for rev, token, entry_id in report.writes:
            assert entries[entry_id].data == {"rev": rev, "token": token, "owner": report.owner}


def _writes_follow_one_another(log: list[LogEntry], last_rev: int) -> None:
    writes = [entry.data for entry in log if "rev" in entry.data]
    tokens = {int(str(data["rev"])): int(str(data["token"])) for data in writes}
    assert len(writes) == last_rev, "two writes made one rev"
    assert sorted(tokens) == list(range(1, last_rev + 1)), "a rev is missing"
    in_order = [tokens[rev] for rev in sorted(tokens)]
    assert in_order == sorted(in_order), "a write came under an earlier token"
