"""A SQLite file that cannot keep the promises is refused in one sentence, and not touched."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ebbtide.adapters.stores.sql import migrate
from ebbtide.adapters.stores.sql.engine import place_of
from ebbtide.adapters.stores.sql.migrate import check, upgrade
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.errors import StoreCause
from tests.contract.stores.examples import make_entry
from tests.contract.stores.lab import StillClock, cause_of


def open_store(path: Path) -> SqlStore:
    return SqlStore.open(f"sqlite:///{path}", StillClock())


@pytest.fixture
def made(tmp_path: Path) -> Path:
    path = tmp_path / "ebbtide.db"
    store = open_store(path)
    store.write(store.load(), None, [make_entry(f"{n:04d}", text="x" * 900) for n in range(50)])
    store.close()
    return path


def refusal(path: Path) -> StoreCause:
    return cause_of(lambda: open_store(path), str(path))


def test_a_new_file_is_made_and_ready(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    open_store(path).close()
    assert check(f"sqlite:///{path}").revision == "0003"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def rights(path: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}


@pytest.fixture
def plain_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("plain_umask")
def test_a_new_file_is_for_its_user_alone_and_so_is_its_log(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    store = open_store(path)
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("SELECT 1 FROM sqlite_master").fetchone()
        assert rights(path) == {"new.db": 0o600, "new.db-wal": 0o600, "new.db-shm": 0o600}
    store.close()


@pytest.mark.usefixtures("plain_umask")
def test_an_old_file_is_closed_to_others_and_its_group_keeps_what_it_has(made: Path) -> None:
    made.chmod(0o664)
    open_store(made).close()
    assert rights(made)[made.name] == 0o660


def test_two_ways_to_name_a_file_are_one_place(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = made.parent / "link"
    link.symlink_to(made.parent)
    hard = made.parent / "other.db"
    hard.hardlink_to(made)
    monkeypatch.chdir(made.parent)
    ways = [made, link / made.name, made.parent / "." / ".." / made.parent.name / made.name, hard, made.name]
    assert len({place_of(f"sqlite:///{way}") for way in ways}) == 1
    assert place_of(f"sqlite:///{link}/new.db") == place_of(f"sqlite:///{made.parent}/new.db")
    assert place_of("postgresql://one:pw@DB/ebb") == place_of("postgresql+psycopg://two@db:5432/ebb")
    assert place_of("postgresql://db/ebb") != place_of("postgresql://db/other")


def test_a_file_that_is_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n" * 100)
    assert refusal(path) is StoreCause.FOREIGN
    assert path.read_text() == "my notes\n" * 100


def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE recipes (name)")
    assert refusal(path) is StoreCause.FOREIGN
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("recipes",)]


CUT = {
    "head": {StoreCause.FOREIGN},
    "middle": {StoreCause.CORRUPT},
    "short": {StoreCause.CORRUPT},
}


@pytest.mark.parametrize("cut", CUT)
def test_a_corrupt_file_is_left_as_it_is(made: Path, cut: str) -> None:
    whole = made.read_bytes()
    broken = {
        "head": whole[:16] + b"\xff" * 200 + whole[216:],
        "middle": whole[:4096] + b"\xff" * (len(whole) - 8192) + whole[-4096:],
        "short": whole[: len(whole) // 2],
    }[cut]
    made.write_bytes(broken)
    assert refusal(made) in CUT[cut]
    assert cause_of(lambda: check(f"sqlite:///{made}"), str(made)) in CUT[cut]
    assert made.read_bytes() == broken


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Root may write anything; nobody may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_may_not_be_written_is_refused(made: Path) -> None:
    made.chmod(0o444)
    for folder in [made.parent, *made.parent.parents]:
        if folder == Path("/tmp"):
            break
        folder.chmod(0o755)
    with as_ordinary_user():
        assert refusal(made) is StoreCause.NOT_WRITABLE


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    assert cause_of(lambda: open_store(missing / "a.db"), f"{missing} ") is StoreCause.NO_FOLDER


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert refusal(tmp_path) is StoreCause.BAD_URL


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "mysql://x/y", "nonsense", "postgresql://h:x/d"]
)
def test_a_url_that_names_no_database_is_refused(url: str) -> None:
    assert cause_of(lambda: SqlStore.open(url, StillClock()), "store.url") is StoreCause.BAD_URL


def test_checking_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    assert cause_of(lambda: check(f"sqlite:///{path}"), str(path)) is StoreCause.NOT_MADE
    assert list(tmp_path.iterdir()) == []


def test_sqlite_file_shared_over_a_network_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "file_system", lambda folder: "nfs4")
    assert cause_of(lambda: open_store(tmp_path / "a.db"), "nfs4") is StoreCause.UNSAFE_FILE_SYSTEM
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_where_a_second_process_is_let_in_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lets_in = 'print("let in")'
    monkeypatch.setattr(migrate, "_SECOND_PROCESS", lets_in)
    monkeypatch.setattr(migrate, "_devices_seen_to_lock", set())
    assert cause_of(lambda: open_store(tmp_path / "a.db"), str(tmp_path)) is StoreCause.UNSAFE_FILE_SYSTEM


def test_sqlite_file_with_two_writers_turns_the_second_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[int] = set()
    monkeypatch.setattr(migrate, "_devices_seen_to_lock", seen)
    open_store(tmp_path / "a.db").close()
    assert seen == {tmp_path.stat().st_dev}


def test_a_full_disk_is_said_and_leaves_nothing_half_written(made: Path) -> None:
    store = open_store(made)
    record = store.load()
    with closing(sqlite3.connect(made)) as limiter:
        pages = limiter.execute("PRAGMA page_count").fetchone()[0]
    store._driver.ask(lambda lent: lent.say(f"PRAGMA max_page_count={pages}"))
    large = make_entry("9", text=os.urandom(20_000).hex())
    assert cause_of(lambda: store.write(record, None, [large]), str(made)) is StoreCause.DISK_FULL
    assert store.load() == record
    assert store.find_entry("9") is None
    store.close()


def test_many_processes_open_a_new_file_at_once(tmp_path: Path) -> None:
    script = (
        "import sys; from ebbtide.adapters.stores.sql.store import SqlStore;"
        "from tests.contract.stores.hammer import SystemClock;"
        "SqlStore.open(sys.argv[1], SystemClock()).close(); print('ready')"
    )
    url = f"sqlite:///{tmp_path / 'new.db'}"
    command = [sys.executable, "-W", "ignore", "-c", script, url]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate(timeout=60)[0] for process in running] == ["ready\n"] * 4


def test_upgrading_twice_changes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    assert (upgrade(url).before, upgrade(url).before) == ("", "0003")


def locks_held(path: Path) -> int:
    """Locks of this process on the file, as the kernel lists them."""
    inode = path.stat().st_ino
    found = 0
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        place = fields.index("POSIX") if "POSIX" in fields else -1
        if place >= 0 and fields[place + 3] == str(os.getpid()) and fields[place + 4].endswith(f":{inode}"):
            found += 1
    return found


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system does not list its locks")
def test_opening_the_file_again_drops_no_lock_of_the_same_process(tmp_path: Path) -> None:
    path = tmp_path / "ebbtide.db"
    first = SqlStore.open(f"sqlite:///{path}", StillClock(), "one")
    first.load()
    held = locks_held(path)
    second = SqlStore.open(f"sqlite:///{path}", StillClock(), "two")
    assert held > 0
    assert locks_held(path) >= held
    second.close()
    assert locks_held(path) >= held
    first.close()
