"""What a database driver's error means to a caller, in one sentence with the next step.

The split that matters: the database said no (nothing was done), it was never reached (nothing was done), or
it did not say (`Unanswered`: it may have been done).
"""

from __future__ import annotations

import sqlite3

from ebbtide.errors import EbbtideError, Retryable, StoreUnusable, Unanswered

_SQLITE_UNUSABLE = {
    "SQLITE_FULL": "the disk is full: free some space and try again",
    "SQLITE_READONLY": "it cannot be written to: give this user the right to write the file and its folder",
    "SQLITE_CANTOPEN": "it cannot be opened: create its folder and give this user the right to write there",
    "SQLITE_PERM": "access is denied: give this user the right to read and write it",
    "SQLITE_AUTH": "access is denied: give this user the right to read and write it",
    "SQLITE_NOTADB": "it is not a SQLite file, and was left as it is; name another file, or move it away",
    "SQLITE_CORRUPT": "it is corrupt: it was left as it is; restore it from a backup, or move it away",
}

_POSTGRES_UNUSABLE = {
    "42P01": "the tables of Ebbtide are missing: run `ebbtide db upgrade`",
    "42703": "the tables of Ebbtide are too old: run `ebbtide db upgrade`",
    "3F000": "the schema of the search path does not exist: create it, then run `ebbtide db upgrade`",
    "42501": "this user lacks a right: grant SELECT, INSERT, UPDATE and DELETE on all tables of Ebbtide",
    "25006": "the database is read-only: connect to the primary server, or end its read-only mode",
    "53100": "the disk of the server is full: free some space there and try again",
    "28P01": "user or password is wrong: correct store.url",
    "28000": "the server refuses this user: correct store.url, or allow it in pg_hba.conf",
    "3D000": "the database does not exist: create it, or correct store.url",
}

_POSTGRES_LATER = {
    "40001": "two transactions met",
    "40P01": "two transactions met",
    "55P03": "a row stayed locked for too long",
    "57014": "a statement took too long",
    "53300": "the server has no connection left",
}

_CONNECT_UNUSABLE = {
    "password authentication failed": _POSTGRES_UNUSABLE["28P01"],
    "no password supplied": _POSTGRES_UNUSABLE["28P01"],
    "no pg_hba.conf entry": _POSTGRES_UNUSABLE["28000"],
    "does not exist": "the user or the database does not exist: create it, or correct store.url",
    "resolve host": "its host name is not known: correct store.url",
    "translate host name": "its host name is not known: correct store.url",
    "invalid": "store.url is not understood by the driver: correct it",
}


def translate(origin: BaseException | None, where: str, broken: bool) -> EbbtideError:
    """For a statement that was sent; `broken` where the connection is gone."""
    if isinstance(origin, sqlite3.Error):
        return _from_sqlite(origin, where)
    code = getattr(origin, "sqlstate", None) or ""
    if code in _POSTGRES_UNUSABLE:
        return StoreUnusable(f"{where}: {_POSTGRES_UNUSABLE[code]}")
    if code in _POSTGRES_LATER:
        return Retryable(f"{where}: {_POSTGRES_LATER[code]}; nothing was done, try again")
    if broken or code.startswith(("57P", "08")) or not code:
        return Unanswered(f"{where} did not answer ({_first_line(origin)}): it may have been done")
    return StoreUnusable(f"{where} refused ({_first_line(origin)}): run `ebbtide db check`")


def translate_connect(origin: BaseException | None, where: str) -> EbbtideError:
    """For a connection that did not come about: nothing was done."""
    if isinstance(origin, sqlite3.Error):
        answer = _from_sqlite(origin, where)
        return StoreUnusable(str(answer)) if isinstance(answer, Unanswered) else answer
    text = str(origin)
    for phrase, says in _CONNECT_UNUSABLE.items():
        if phrase in text:
            return StoreUnusable(f"{where}: {says}")
    return Retryable(
        f"{where} cannot be reached ({_first_line(origin)}): see that the server runs and store.url is right"
    )


def _from_sqlite(origin: sqlite3.Error, where: str) -> EbbtideError:
    name = getattr(origin, "sqlite_errorname", "")
    for prefix, says in _SQLITE_UNUSABLE.items():
        if name.startswith(prefix):
            return StoreUnusable(f"{where}: {says}")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Retryable(f"{where} stayed locked by another process; nothing was done, try again")
    if "no such table" in str(origin) or "no such column" in str(origin):
        return StoreUnusable(
            f"{where}: the tables of Ebbtide are missing or too old: run `ebbtide db upgrade`"
        )
    return Unanswered(f"{where} failed ({origin}): it may have been done; look at the disk it is on")


def _first_line(origin: BaseException | None) -> str:
    return (str(origin).strip().splitlines() or ["no reason given"])[0]
