"""An assessment as Markdown, for a wiki page or a mail. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ebbtide.entrypoints.assess import words
from ebbtide.entrypoints.assess.assessment import Assessment

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|!~])")


def as_markdown(result: Assessment) -> str:
    parts = ["# What this cluster costs and wastes", _numbers(result)]
    parts += [f"- {plain(line)}" for line in words.summary(result)]
    going = [node for node in result.nodes if node.removable]
    kept = [node for node in result.nodes if not node.removable]
    if going:
        rows = [(node.name, words.price(node), _moves(node.goes_to)) for node in going]
        head = ("node", "price an hour", "its pods would go to")
        parts += ["", "## Nodes that could go", "", table(head, rows)]
    if kept:
        rows = [(node.name, words.price(node), "; ".join(node.blockers)) for node in kept]
        parts += ["", "## Nodes that stay", "", table(("node", "price an hour", "what keeps it"), rows)]
    if result.pending:
        parts += ["", "## Pending pods", "", table(("pod", "why"), result.pending)]
    shares = [
        (
            *words.cells(node)[:3],
            words.share(node.cpu_share, node.cpu_used),
            words.share(node.memory_share, node.memory_used),
        )
        for node in result.nodes
    ]
    parts += ["", "## All nodes", "", table(("node", "type", "zone", "CPU", "memory"), shares)]
    if priced := words.price_bases(result):
        parts += ["", "## Where the prices come from", "", table(words.PRICE_COLUMNS, priced)]
    parts += [
        "",
        *(f"> {plain(words.a_sentence(note))}" for note in result.notes),
        "",
        "Nothing was touched.",
        "",
    ]
    return "\n".join(parts)


def _numbers(result: Assessment) -> str:
    return "\n" + table(("a month", "amount"), words.headline(result)) + "\n"


def _moves(goes_to: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{pod} → {there}" for pod, there in goes_to) or "it has none to move"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plain(text: str) -> str:
    """Names come from the cluster, and must not become markup."""
    return SPECIAL.sub(r"\\\1", text.replace("\n", " "))
