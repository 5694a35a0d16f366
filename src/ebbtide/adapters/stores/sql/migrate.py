"""Tables of a database: create or upgrade them, check them, and refuse a SQLite file that is not safe to
use.

An upgrade is one transaction. A newer schema is accepted if its `readable_from` allows this version, so
replicas can be upgraded one after another.

A SQLite file is checked before anything is written to it. Two runners are kept apart by its locks, so the
locks are tested: while this process holds the write lock, a second one must be refused. The file is opened
only through SQLite: closing it in any other way would drop all locks of this process (POSIX), and others
could overwrite what we are reading.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine

from ebbtide.adapters.stores.sql.engine import (
    BUSY_TIMEOUT_SECONDS,
    connected,
    describe,
    is_sqlite,
    make_engine,
    parse,
    sqlite_path,
    transaction,
)
from ebbtide.adapters.stores.sql.schema import READABLE_FROM, SCHEMA_REVISION, VERSION_TABLE, meta, version
from ebbtide.errors import EbbtideError, Retryable, StoreCause, StoreUnusable

NETWORK_FILE_SYSTEMS = frozenset(
    {"afs", "ceph", "cifs", "glusterfs", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"}
)
REMOTE_FUSE = ("fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs")
QUICK_CHECK_BELOW_BYTES = 32 * 1024 * 1024
SECOND_PROCESS_SECONDS = 60

_SECOND_PROCESS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    connection.execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print("turned away" if error.sqlite_errorname.startswith("SQLITE_BUSY") else error)
else:
    print("let in")
"""

_devices_seen_to_lock: set[int] = set()


def probe(path: Path, may_create: bool) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise StoreUnusable(
            StoreCause.NO_FOLDER, f"the folder {folder} of the SQLite file does not exist: create it"
        )
    if path.is_dir():
        raise StoreUnusable(StoreCause.BAD_URL, f"{path} is a folder: name a file in store.url")
    if not path.exists() and not may_create:
        raise StoreUnusable(
            StoreCause.NOT_MADE, f"the SQLite file {path} does not exist: run `ebbtide db upgrade` to make it"
        )
    for place in (folder, *([path] if path.exists() else ())):
        if not os.access(place, os.W_OK):
            raise StoreUnusable(
                StoreCause.NOT_WRITABLE,
                f"{place} cannot be written to: give this user the right to write there",
            )
    _refuse_network_file_system(folder)
    try:
        _refuse_without_locks(folder)
        if may_create:
            keep_to_ourselves(path)
        _refuse_broken(path)
        if may_create:
            prefer_wal(path)
    except sqlite3.DatabaseError as error:
        raise _unusable(path, error) from error


def _refuse_network_file_system(folder: Path) -> None:
    kind = file_system(folder)
    # Crash table: shared-sqlite. Locks may not hold there, and two writers would overwrite each other.
    if kind in NETWORK_FILE_SYSTEMS or kind in REMOTE_FUSE:
        raise StoreUnusable(
            StoreCause.UNSAFE_FILE_SYSTEM,
            f"{folder} is on a network file system ({kind}), where SQLite cannot keep two writers apart: "
            "put the file on a local disk, or use PostgreSQL",
        )


def _refuse_broken(path: Path) -> None:
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None)
    with closing(connection):
        if path.stat().st_size < QUICK_CHECK_BELOW_BYTES:
            (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if answer != "ok":
                raise sqlite3.DatabaseError(" ".join(answer.split()))
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


def keep_to_ourselves(path: Path) -> None:
    """A new file is for its user alone; SQLite gives its log the rights of the file. An old one that is ours
    is closed to everybody else: who writes the record decides what is removed."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    for each in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal"))):
        with suppress(FileNotFoundError):
            now = each.stat()
            if now.st_mode & 0o007 and now.st_uid == os.geteuid():
                each.chmod(now.st_mode & 0o770)


def prefer_wal(path: Path) -> None:
    """Readers then do not wait for writers. If WAL is not available, the rollback journal works as well.

    An empty file forgets it, so a new one is asked again once it has its tables.
    """
    with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None)) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            with suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA journal_mode=WAL").fetchone()


def _refuse_without_locks(folder: Path) -> None:
    """Tried on a file of its own next to the real one, so no running process has to wait."""
    device = folder.stat().st_dev
    if device in _devices_seen_to_lock:
        return
    with tempfile.TemporaryDirectory(prefix=".ebbtide-probe-", dir=folder) as apart:
        answer = _second_process_meets_a_lock(Path(apart) / "probe.db")
    if answer != "turned away":
        raise StoreUnusable(
            StoreCause.UNSAFE_FILE_SYSTEM,
            f"locks do not work on the file system of {folder} (a second process was {answer}): "
            "put the file on a local disk, or use PostgreSQL",
        )
    _devices_seen_to_lock.add(device)


def _second_process_meets_a_lock(path: Path) -> str:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            second = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _SECOND_PROCESS, str(path)],
                capture_output=True,
                text=True,
                timeout=SECOND_PROCESS_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Retryable(
                f"a second process to try the locks of {path.parent.parent} did not answer: try again"
            ) from error
    return second.stdout.strip() or second.stderr.strip()


def file_system(folder: Path) -> str:
    """The kind of file system that a folder is on; empty where the system does not say."""
    device = folder.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        left, _, right = line.partition(" - ")
        if left.split()[2] == wanted:
            return right.split()[0]
    return ""


def _unusable(path: Path, error: sqlite3.DatabaseError) -> EbbtideError:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_READONLY"):
        return StoreUnusable(
            StoreCause.NOT_WRITABLE, f"{path} cannot be written to: give this user the right to write it"
        )
    if name.startswith("SQLITE_BUSY"):
        return Retryable(f"{path} stays locked by another process: try again, or end that process")
    if name.startswith("SQLITE_NOTADB"):
        return StoreUnusable(
            StoreCause.FOREIGN,
            f"{path} is not a SQLite file, or its head is damaged: it was left as it is; name another "
            "file in store.url, or restore it from a backup",
        )
    if name.startswith("SQLITE_FULL"):
        return StoreUnusable(
            StoreCause.DISK_FULL, f"the disk of {path} is full: free some space and try again"
        )
    return StoreUnusable(
        StoreCause.CORRUPT,
        f"{path} is corrupt ({error}): it was left as it is; restore it from a backup, or move it away",
    )


_UPGRADE_LOCK = 0x65626274
_RIGHTS = {
    "ebbtide_state": "SELECT, INSERT, UPDATE, DELETE",
    "ebbtide_log": "SELECT, INSERT, DELETE",
    "scaling_policies": "SELECT, INSERT, UPDATE, DELETE",
    "scaling_idle_state": "SELECT, INSERT, UPDATE, DELETE",
    "scaling_cost_savings": "SELECT, INSERT, UPDATE, DELETE",
    "scaling_targets": "SELECT, INSERT, UPDATE, DELETE",
    "scaling_once": "SELECT, INSERT, UPDATE, DELETE",
}


@dataclass(frozen=True, slots=True)
class Schema:
    """What a database says of its tables; an empty revision is a database without any."""

    revision: str
    readable_from: str

    @property
    def is_older(self) -> bool:
        return self.revision < SCHEMA_REVISION

    @property
    def is_too_new(self) -> bool:
        return self.readable_from > SCHEMA_REVISION


@dataclass(frozen=True, slots=True)
class Upgraded:
    database: str
    before: str
    """The revision of its schema until now; empty where it had no tables."""

    def __str__(self) -> str:
        if self.before >= SCHEMA_REVISION:
            return f"{self.database} is at schema {self.before} already"
        if not self.before:
            return f"{self.database} has its tables now, at schema {SCHEMA_REVISION}"
        return f"{self.database} was brought from schema {self.before} to {SCHEMA_REVISION}"


@dataclass(frozen=True, slots=True)
class Checked:
    database: str
    revision: str

    def __str__(self) -> str:
        newer = (
            f" (this Ebbtide was written for {SCHEMA_REVISION})" if self.revision > SCHEMA_REVISION else ""
        )
        return f"{self.database} is ready at schema {self.revision}{newer}"


def upgrade(url: str) -> Upgraded:
    """Make or upgrade the tables."""
    parsed = parse(url)
    if is_sqlite(parsed):
        probe(sqlite_path(parsed), may_create=True)
    engine = make_engine(parsed)
    try:
        before = migrate(engine)
    finally:
        engine.dispose()
    return Upgraded(describe(parsed), before.revision)


def check(url: str) -> Checked:
    """How the database stands; `StoreUnusable` with the next step if it cannot be used."""
    parsed = parse(url)
    if is_sqlite(parsed):
        probe(sqlite_path(parsed), may_create=False)
    engine = make_engine(parsed)
    try:
        with connected(engine) as connection:
            schema = read_schema(connection)
            refuse_unusable(schema, parsed)
            _refuse_without_rights(connection, parsed)
            _refuse_corrupt(connection, parsed)
    finally:
        engine.dispose()
    return Checked(describe(parsed), schema.revision)


def migrate(engine: Engine) -> Schema:
    """Upgrade inside one transaction; returns what was there before."""
    from alembic import command
    from alembic.config import Config

    with transaction(engine) as connection:
        if not is_sqlite(engine.url):
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_UPGRADE_LOCK})")
        before = read_schema(connection)
        if is_sqlite(engine.url) and not before.revision and sa.inspect(connection).get_table_names():
            raise StoreUnusable(
                StoreCause.FOREIGN,
                f"{describe(engine.url)} belongs to another program: it was left as it is; "
                "name another file in store.url",
            )
        if before.is_older:
            config = Config()
            config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        elif before.is_too_new:
            refuse_unusable(before, engine.url)
    if is_sqlite(engine.url) and not before.revision:
        prefer_wal(sqlite_path(engine.url))
    return before


def read_schema(connection: Connection) -> Schema:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return Schema("", "")
    revision = connection.execute(sa.select(version.c.version_num)).scalar() or ""
    readable = connection.execute(sa.select(meta.c.value).where(meta.c.name == READABLE_FROM)).scalar()
    return Schema(revision, readable or revision)


def refuse_unusable(schema: Schema, url: URL) -> None:
    if not schema.revision:
        raise StoreUnusable(
            StoreCause.NOT_MADE, f"{describe(url)} has no tables of Ebbtide yet: run `ebbtide db upgrade`"
        )
    if schema.is_older:
        raise StoreUnusable(
            StoreCause.OLD_SCHEMA,
            f"{describe(url)} has schema {schema.revision}, this Ebbtide needs {SCHEMA_REVISION}: "
            "run `ebbtide db upgrade`",
        )
    if schema.is_too_new:
        raise StoreUnusable(
            StoreCause.NEW_SCHEMA,
            f"{describe(url)} has schema {schema.revision}, which this Ebbtide ({SCHEMA_REVISION}) cannot "
            "read: nothing was touched; run the newer version of Ebbtide",
        )


def _refuse_without_rights(connection: Connection, url: URL) -> None:
    if is_sqlite(url):
        return
    if connection.exec_driver_sql("SHOW transaction_read_only").scalar() == "on":
        raise StoreUnusable(
            StoreCause.READ_ONLY,
            f"{describe(url)} is read-only: connect to the primary server, or end its read-only mode",
        )
    for table, rights in _RIGHTS.items():
        for right in rights.split(", "):
            asked = sa.select(sa.func.has_table_privilege(table, right))
            if not connection.execute(asked).scalar():
                raise StoreUnusable(
                    StoreCause.NO_RIGHTS,
                    f"{describe(url)}: this user may not {right} {table}: grant {rights} on it",
                )


def _refuse_corrupt(connection: Connection, url: URL) -> None:
    if not is_sqlite(url):
        return
    answer = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    if answer != "ok":
        raise StoreUnusable(
            StoreCause.CORRUPT,
            f"{describe(url)} is corrupt ({' '.join(str(answer).split())}): it was left as it is; "
            "restore it from a backup, or move it away",
        )
