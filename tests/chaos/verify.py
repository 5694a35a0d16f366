"""What the database acknowledged must be there, in one order, under tokens that never go back."""

from __future__ import annotations

from pathlib import Path

from ebbtide.ports import Store


def verify_writes(folder: Path, store: Store) -> tuple[int, int, list[str]]:
    """How many writes were acknowledged, how many of them are lost, and what else is wrong."""
    revs: dict[int, int] = {}
    entries: set[str] = set()
    broken: list[str] = []
    for notes in sorted(folder.glob("*.notes")):
        for line in notes.read_text().splitlines():
            first, second, *ids = line.split()
            rev, token = int(first), int(second)
            entries.update(ids)
            if rev in revs:
                broken.append(f"revision {rev} was acknowledged twice")
            if rev:
                revs[rev] = token
    newest = store.load().rev
    lost = sum(1 for rev in revs if rev > newest)
    lost += sum(1 for entry_id in entries if store.find_entry(entry_id) is None)
    highest = 0
    for rev in sorted(revs):
        token = revs[rev]
        if token and token < highest:
            broken.append(f"revision {rev} was written under token {token}, after {highest}")
        highest = max(highest, token)
    return len(revs) + len(entries), lost, broken
