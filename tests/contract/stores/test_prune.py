"""Old entries are forgotten and nothing else: not the newer ones, not the ledger's, not a token."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.adapters.stores.dynamodb.store import DynamoStore
from ebbtide.adapters.stores.dynamodb.tables import make_client, parse_tables
from ebbtide.adapters.stores.guards import LEASES_OUTLIVE_SECONDS
from ebbtide.adapters.stores.sql import store as store_module
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.record import CLUSTER_LEASE, spot_lease_name
from ebbtide.ports import Store
from tests.contract.stores.examples import AT, make_entry, make_record
from tests.contract.stores.lab import DynamoLab, StoreLab

SPOT_LEASE = spot_lease_name("i-0abc")
DAY_SECONDS = 24 * 3600


def entry_of(at: int, entry_id: str, kind: LogKind = LogKind.DECISION, **data: object) -> LogEntry:
    return replace(make_entry(entry_id, kind, "s", **data), at=at)


def ids(store: Store) -> list[str]:
    return [entry.id for entry in store.read_log()]


def test_entries_older_than_that_second_are_forgotten_and_later_ones_stay(store: Store) -> None:
    store.append([entry_of(AT - 2, "1"), entry_of(AT - 1, "2", LogKind.ALARM), entry_of(AT, "3")])
    store.append([entry_of(AT + 1, "4", LogKind.ALARM)])
    assert store.prune_log(AT) == 2
    assert ids(store) == ["4", "3"]
    assert [entry.id for entry in store.read_log([LogKind.ALARM])] == ["4"]
    assert [entry.id for entry in store.read_log(subject="s")] == ["4", "3"]
    assert store.find_entry("1") is None
    assert store.prune_log(AT) == 0


def test_an_empty_log_has_nothing_to_forget(store: Store) -> None:
    assert store.prune_log(AT) == 0


def test_what_the_ledger_is_rebuilt_from_is_never_forgotten(store: Store) -> None:
    store.append([entry_of(1, "1", LogKind.STRETCH), entry_of(1, "2"), entry_of(AT, "3")])
    assert store.prune_log(AT) == 1
    assert ids(store) == ["3", "1"]


def test_an_old_entry_between_newer_ones_is_found(store: Store) -> None:
    store.append([entry_of(AT, "1"), entry_of(AT - 1, "2"), entry_of(AT, "3")])
    assert store.prune_log(AT) == 1
    assert ids(store) == ["3", "1"]


def test_more_entries_than_go_in_one_step_all_go(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "PRUNED_AT_ONCE", 3)
    store.append([entry_of(AT - 1, f"{number:02d}") for number in range(9)] + [entry_of(AT, "99")])
    assert store.prune_log(AT) == 9
    assert ids(store) == ["99"]


def test_the_log_of_another_cluster_is_left_alone(store: Store, lab: StoreLab, cluster: str) -> None:
    other = lab.open(f"{cluster}-other")
    store.append([entry_of(AT - 1, "1")])
    other.append([entry_of(AT - 1, "1")])
    assert store.prune_log(AT) == 1
    assert ids(other) == ["1"]
    other.close()


def test_a_large_entry_is_forgotten_whole_and_may_come_again(store: Store) -> None:
    entry = entry_of(AT - 1, "1", pods=[f"pod-{number:x}" * 9 for number in range(3000)])
    store.append([entry])
    assert store.prune_log(AT) == 1
    store.append([entry])
    assert store.find_entry("1") == entry


def test_the_record_is_left_alone(store: Store, cluster: str) -> None:
    lease = store.acquire(CLUSTER_LEASE, "a", 30)
    record = store.write(make_record(cluster), lease, [entry_of(AT - 1, "1")])
    store.prune_log(AT)
    assert store.load() == replace(record, lock_owner="a", lock_until=lease.until, lock_token=1)
    assert store.write(record, lease).rev == 2


def test_the_token_of_a_lease_keeps_growing_through_it(store: Store, lab: StoreLab) -> None:
    store.release(store.acquire(SPOT_LEASE, "a", 30))
    lab.advance(300 * DAY_SECONDS)
    store.prune_log(int(lab.clock.now()))
    assert store.acquire(SPOT_LEASE, "b", 30).token == 2


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
@pytest.mark.parametrize("given_back", [True, False])
def test_the_lease_of_an_instance_long_gone_is_forgotten(
    request: pytest.FixtureRequest, kind: str, cluster: str, given_back: bool
) -> None:
    """On DynamoDB the table itself does that, by its TTL."""
    lab: StoreLab = request.getfixturevalue(f"{kind}_lab")
    store = lab.open(cluster)
    lease = store.acquire(SPOT_LEASE, "a", 30)
    other = store.acquire(CLUSTER_LEASE, "a", 30)
    for each in (lease, other) if given_back else ():
        store.release(each)
    lab.advance(30 + LEASES_OUTLIVE_SECONDS)
    store.prune_log(0)
    assert store.acquire(SPOT_LEASE, "b", 30).token == 2
    lab.advance(31 + LEASES_OUTLIVE_SECONDS)
    store.prune_log(0)
    assert store.acquire(SPOT_LEASE, "c", 30).token == 1
    assert store.acquire(CLUSTER_LEASE, "b", 30).token == 2
    store.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_no_row_of_a_forgotten_lease_is_left(request: pytest.FixtureRequest, kind: str, cluster: str) -> None:
    lab: StoreLab = request.getfixturevalue(f"{kind}_lab")
    store = lab.open(cluster)
    assert isinstance(store, SqlStore)
    store.acquire(SPOT_LEASE, "a", 30)
    lab.advance(31 + LEASES_OUTLIVE_SECONDS)
    store.prune_log(0)
    assert store._ask(lambda lent: store._row(lent, store._pk(SPOT_LEASE))) is None
    store.close()


def test_the_parts_of_a_large_entry_go_with_it(dynamodb_lab: DynamoLab, cluster: str) -> None:
    tables = parse_tables(dynamodb_lab.server.url(*dynamodb_lab.tables))
    client = make_client(tables)

    def items() -> int:
        pages = client.get_paginator("scan").paginate(TableName=tables.logs, ProjectionExpression="pk")
        return sum(cluster in item["pk"]["S"] for page in pages for item in page["Items"])

    store = dynamodb_lab.open(cluster)
    store.append([entry_of(AT - 1, "1", noise=[hash((number, "x")) for number in range(60_000)])])
    assert items() > 2
    store.prune_log(AT)
    assert items() == 0
    store.close()
    client.close()


@pytest.mark.parametrize(("days", "expires"), [(30, 30 * DAY_SECONDS), (0, None)])
def test_entries_expire_on_dynamodb_as_configured(
    dynamodb_lab: DynamoLab, cluster: str, days: int, expires: int | None
) -> None:
    url = dynamodb_lab.server.url(*dynamodb_lab.tables)
    store = DynamoStore.open(url, dynamodb_lab.clock, cluster, days)
    store.append([make_entry("1"), make_entry("2", LogKind.STRETCH)])
    client, key = make_client(parse_tables(url)), {"S": f"cluster#{cluster}"}
    found = [
        client.get_item(TableName=dynamodb_lab.tables[1], Key={"pk": key, "sk": {"S": entry_id}})["Item"]
        for entry_id in "12"
    ]
    wanted = None if expires is None else {"N": str(int(dynamodb_lab.clock.now()) + expires)}
    assert [item.get("expiresEpoch") for item in found] == [wanted, None]
    store.close()
    client.close()
