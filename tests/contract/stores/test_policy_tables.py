"""The tables of policies: names and columns of the specification, upgrades, and what is said without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from ebbtide.adapters.stores.codec.policies import policy_body
from ebbtide.adapters.stores.dynamodb.store import DynamoStore
from ebbtide.adapters.stores.dynamodb.tables import check_tables, create_tables, make_client, parse_tables
from ebbtide.adapters.stores.sql import migrate
from ebbtide.adapters.stores.sql.engine import make_engine, parse, transaction
from ebbtide.adapters.stores.sql.migrate import check, upgrade
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.errors import StoreCause, TargetTaken
from ebbtide.model.log import LogKind
from ebbtide.ports import PolicyStore
from tests.contract.stores.examples import make_entry
from tests.contract.stores.lab import DynamoLab, PostgresLab, SqliteLab, StillClock, cause_of, policies_of
from tests.contract.stores.policy_examples import AT, POLICIES, full_state, make_day, make_policy, policy_id
from tests.contract.stores.test_schema import run, url
from tests.contract.stores.test_states import put
from tests.servers.dynamodb import DynamoServer

__all__ = ["url"]

COLUMNS = {
    "scaling_policies": {
        *("id", "name", "min_replicas", "max_replicas", "cooldown_seconds", "max_hourly_cost"),
        *("scale_to_zero", "enabled", "idle_threshold_seconds", "keep_alive_window_seconds"),
        "cold_start_timeout_seconds",
    },
    "scaling_idle_state": {
        *("id", "policy_id", "last_activity_at", "idle_since", "scaled_to_zero_at", "last_wake_at"),
        *("wake_reason", "is_scaled_to_zero", "created_at", "updated_at"),
    },
    "scaling_cost_savings": {
        *("id", "policy_id", "date", "idle_seconds", "scaled_to_zero_seconds", "estimated_savings_cents"),
        *("hourly_cost_cents", "created_at", "updated_at"),
    },
}
NO_DATA = {"sqlite": "CAST('{}' AS BLOB)", "postgresql": "CAST('{}' AS BYTEA)"}
INDEXES = {
    "scaling_idle_state": "idx_scaling_idle_state_policy",
    "scaling_cost_savings": "idx_scaling_cost_savings_policy_date",
}


def test_tables_columns_and_indexes_have_the_names_of_the_specification(url: str) -> None:
    upgrade(url)
    engine = make_engine(parse(url))
    found = sa.inspect(engine)
    for table, columns in COLUMNS.items():
        assert columns <= {column["name"] for column in found.get_columns(table)}
    for table, index in INDEXES.items():
        assert index in {each["name"] for each in found.get_indexes(table) if each["unique"]}
    engine.dispose()


def test_a_store_of_the_first_schema_is_upgraded_with_all_that_is_in_it(url: str) -> None:
    upgrade_to_first(url)
    run(
        url,
        "INSERT INTO ebbtide_state (pk, rev, body) VALUES ('cluster', 4, '{}')",
        "INSERT INTO ebbtide_log (cluster, id, at, kind, subject, says, data) "
        f"VALUES ('cluster', '1', 5, 'alarm', '', 'old', {NO_DATA[url.split(':', maxsplit=1)[0]]})",
    )
    for attempt in (check, lambda where: SqlStore.open(where, StillClock())):
        assert cause_of(partial(attempt, url)) is StoreCause.OLD_SCHEMA
    assert upgrade(url).before == "0001"
    store = SqlStore.open(url, StillClock())
    assert store.load().rev == 4
    assert [(entry.id, entry.kind) for entry in store.read_log()] == [("1", LogKind.ALARM)]
    assert put(store.policies()).rev == 1
    store.close()
    assert check(url).revision == "0003"


def upgrade_to_first(url: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    engine = make_engine(parse(url))
    with transaction(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    engine.dispose()


CALLS: list[Callable[[PolicyStore], Any]] = [
    lambda policies: policies.list_policies(),
    lambda policies: policies.put_policy(make_policy(2)),
    lambda policies: policies.delete_policy(policy_id(1), 1),
    lambda policies: policies.list_states(),
    lambda policies: policies.write_state(put_again(policies), [make_day()]),
    lambda policies: policies.write_states([put_again(policies)]),
    lambda policies: policies.list_days(),
    lambda policies: policies.replace_days(policy_id(1), [make_day()]),
    lambda policies: policies.keep_once("key", "value", AT, AT),
]


def put_again(policies: PolicyStore) -> Any:
    return full_state(replace(policies.find_state(policy_id(1)) or put(policies), rev=1))


def test_tables_that_vanish_under_a_running_store_are_said(url: str) -> None:
    upgrade(url)
    store = SqlStore.open(url, StillClock())
    policies = store.policies()
    put(policies)
    tables = ("once", "cost_savings", "idle_state", "policies")
    run(url, *(f"DROP TABLE scaling_{table}" for table in tables))
    for call in CALLS:
        assert cause_of(partial(call, policies)) is StoreCause.NOT_MADE
    store.close()


def test_a_body_that_cannot_be_read_is_left_as_it_is(url: str) -> None:
    upgrade(url)
    store = SqlStore.open(url, StillClock())
    policies = store.policies()
    put(policies)
    run(url, """UPDATE scaling_idle_state SET body = '{"policy_id": "x", "phase": "dreaming"}'""")
    for attempt in (policies.list_states, lambda: policies.find_state(policy_id(1))):
        assert cause_of(attempt, names="dreaming") is StoreCause.CORRUPT
    store.close()


def test_a_dynamodb_without_the_table_of_policies_serves_the_rest(dynamodb: DynamoServer) -> None:
    where = dynamodb.url("older-state", "older-logs")
    create_tables(where)
    client = make_client(parse_tables(where))
    client.delete_table(TableName="older-state-policies")
    store = DynamoStore.open(where, StillClock())
    assert store.load().rev == 0
    for attempt in (store.policies, lambda: check_tables(where)):
        assert cause_of(attempt) is StoreCause.NOT_MADE
    assert create_tables(where).endswith("was made")
    policies = store.policies()
    assert put(policies).rev == 1
    client.delete_table(TableName="older-state-policies")
    for call in CALLS:
        assert cause_of(partial(call, policies)) is StoreCause.NOT_MADE
    client.close()
    store.close()


def test_the_named_columns_say_what_the_body_says(sqlite_lab: SqliteLab, postgresql_lab: PostgresLab) -> None:
    for lab in (sqlite_lab, postgresql_lab):
        store = lab.open("columns")
        policies = policies_of(store)
        state = policies.write_state(full_state(put(policies)), [make_day()])
        policies.write_states([replace(state, idle_since=None, wake_count=3)])
        assert isinstance(store, SqlStore)
        assert _rows(store, "SELECT name, max_replicas, idle_threshold_seconds FROM scaling_policies") == [
            ("policy-001", 10, None)
        ]
        since = "SELECT idle_since, wake_reason, rev FROM scaling_idle_state"
        assert _rows(store, since) == [(None, "webhook", 3)]
        moments = "SELECT CAST(last_activity_at AS TEXT) FROM scaling_idle_state"
        ((said,),) = _rows(store, moments)
        assert said.replace(" ", "T").startswith("2024-10-27T03:38:21")
        cents = "SELECT estimated_savings_cents, hourly_cost_cents FROM scaling_cost_savings"
        assert _rows(store, cents) == [(3, 2)]
        store.close()


def test_keys_that_ran_out_long_ago_are_removed(sqlite_lab: SqliteLab, postgresql_lab: PostgresLab) -> None:
    for lab in (sqlite_lab, postgresql_lab):
        store = lab.open("columns")
        policies = policies_of(store)
        for key, until in (("old", AT), ("new", AT + 86_400)):
            policies.keep_once(key, "value", until, AT)
        policies.keep_once("newer", "value", AT + 90_000, AT + 86_401)
        assert isinstance(store, SqlStore)
        assert sorted(_rows(store, "SELECT key FROM scaling_once")) == [("new",), ("newer",)]
        store.close()


def _rows(store: SqlStore, words: str) -> list[tuple[Any, ...]]:
    from ebbtide.adapters.stores.sql.engine import Statement

    asked = Statement(f"{words} WHERE cluster = 'columns'", {})
    return store._driver.ask(lambda lent: list(lent.run(asked, {}).fetchall()))


def test_what_the_ledger_is_rebuilt_from_never_expires(dynamodb_lab: DynamoLab) -> None:
    store = dynamodb_lab.open("kept")
    kinds = (LogKind.STRETCH, LogKind.IDLE)
    entries = [make_entry(str(number), kind, text="x" * 9000) for number, kind in enumerate(kinds)]
    policies_of(store).put_policy(make_policy(), entries)
    client = make_client(parse_tables(dynamodb_lab.server.url(*dynamodb_lab.tables)))
    heads = client.query(
        TableName=dynamodb_lab.tables[1],
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": "cluster#kept"}},
    )["Items"]
    assert ["expiresEpoch" in head for head in heads] == [False, True]
    client.close()
    assert list(store.read_log()) == entries[::-1]
    store.close()


def test_the_targets_of_an_older_store_are_claimed_by_the_upgrade(url: str) -> None:
    upgrade(url)
    store = SqlStore.open(url, StillClock())
    pool = replace(POLICIES["of a pool"], id=policy_id(9), name="pool")
    for policy in (make_policy(1), replace(make_policy(2), enabled=False), pool):
        store.policies().put_policy(policy)
    store.close()
    run(url, "DROP TABLE scaling_targets", "UPDATE ebbtide_schema SET version_num = '0002'")
    assert upgrade(url).before == "0002"
    store = SqlStore.open(url, StillClock())
    for taken in (make_policy(1), pool):
        with pytest.raises(TargetTaken):
            store.policies().put_policy(replace(taken, id=policy_id(5), name="other"))
    free = replace(make_policy(2), id=policy_id(5), name="other")
    assert store.policies().put_policy(free).version == 1
    store.close()


def test_a_target_that_an_older_version_gave_up_is_taken_over(url: str) -> None:
    """It does not know claims: a policy that it disabled or deleted still has one."""
    upgrade(url)
    store = SqlStore.open(url, StillClock())
    first = store.policies().put_policy(make_policy(1))
    store.policies().put_policy(make_policy(2))
    disabled = policy_body(replace(first, enabled=False))
    run(
        url,
        f"UPDATE scaling_policies SET enabled = false, body = '{disabled}' WHERE name = 'policy-001'",
        f"DELETE FROM scaling_idle_state WHERE policy_id <> '{first.id}'",
        "DELETE FROM scaling_policies WHERE name = 'policy-002'",
    )
    for number in (1, 2):
        taken = replace(make_policy(number), id=policy_id(number + 4), name=f"new-{number}")
        assert store.policies().put_policy(taken).version == 1
    with pytest.raises(TargetTaken):
        store.policies().put_policy(replace(first, enabled=True))
    store.close()
