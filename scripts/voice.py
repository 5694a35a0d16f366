"""Lint the words that people read: `python -m scripts.voice` prints each one that has a plainer equivalent,
and each name in `src` that was given up for the usual word.

Checked are the documents, the unreleased part of the changelog, the pages, and the docstrings, comments and
sentences of `src`. A sentence is a string literal with a space in it: single words may be names of the API,
metrics, labels or keys, which stay. Code in Markdown is left out for the same reason. Of tests, benchmarks
and scripts, docstrings, comments and the names of tests are checked, without quotations.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

INSTEAD = {
    r"figures?": "metrics, numbers, values",
    r"dear(er|est)?": "expensive",
    r"under way": "in progress",
    r"anew|afresh": "again",
    r"besides?": "next to, apart from",
    r"so that": "so",
    r"in vain": "without result",
    r"whoever": "the runner, the caller, anyone who",
    r"passed over|passes over|pass over": "skipped",
    r"doors?": "ports",
    r"hush(ed)?": "redact",
    r"but for": "except",
    r"of before": "earlier",
    r"to be had": "available",
    r"mend(s|ed|ing)?": "fix",
    r"heed(s|ed)?": "respect",
    r"lest": "so … not",
    r"hence|thereof|therein|whence": "so, of it, in it, from which",
    r"ere|amiss|likewise": "before, wrong, also",
    r"of whose|in whose": "whose, with an active verb",
    r"pods? (that )?(is |are |was |were )?(still )?wait(s|ing)?|waiting pods?": "pending",
    r"it rests until": "skipped until",
    r"the half that people fear": "safe scale-down",
    r"reached, not passed": "inclusive",
    r"unclean runs?": "crash count",
    r"held against": "counted against",
    r"leaving node|leaving nodes": "emptied node, node in disruption",
    r"mischief": "fault",
    r"desks?": "context",
    r"he has|he is|him": "they",
    r"that has before it|there is no TLS in it": "put a TLS Ingress in front of it",
    r"nobody overwrites": "to prevent lost updates",
    r"removed are first": "removal order:",
    r"too few went": "removed too few nodes",
    r"forget the entries": "delete entries older than",
    r"go(es)? on|went on": "continue",
    r"for ever": "forever",
    r"as ever": "as usual",
    r"at work": "active, running",
    r"puts? (it |them |things )?right": "correct, fix",
    r"(knows?|says?) nothing of": "has no data on, does not mention",
    r"held to cost": "assumed to cost",
    r"(?<!there\s)is no (number|time|day|duration|pool|zone|type|store|network|secret|list)": "is not a",
    r"nor otherwise": "other reasons",
    r"read whole": "read completely",
    r"alive for us": "running",
    r"(came|comes?|becomes?|became) of": "the result of, happened to",
    r"for good": "permanently",
    r"misdeeds?": "violation",
    r"scratch paper": "while it is computed",
    r"how-manieth": "the number of",
    r"reckon(s|ed|ing)?": "count on, expect",
}
"""A pattern of whole words, and what to write instead."""
GIVEN_UP = {
    "hush": "redact",
    "hushed": "redact",
    "Outside": "Ports",
    "Both": "Runtime",
    "Hold": "LeasedRun",
    "Desk": "PolicyContext, RouteContext",
    "begun": "start, charge_cooldown",
    "Rest": "DrainBackoff",
    "OfferRest": "CapacityBackoff",
    "held_against": "count_against_max",
    "consolidation_owes": "removals_outstanding",
    "consolidations_in_vain": "fruitless_count",
    "in_vain": "fruitless_count",
    "unclean_runs": "crash_count",
    "_shut": "_accepts_no_pods",
    "_is_taken": "_cloud_is_reclaiming",
}
"""Names of classes, functions, fields and parameters."""
GIVEN_UP_FILES = {
    "servers": "game_servers",
    "listening": "activity",
    "floor": "policy_overrides",
    "track": "timers",
    "telling": "views",
    "shapes": "schemas",
    "answers": "errors",
    "following": "watch",
    "acting": "writer",
    "leaving": "emptied_nodes, in_disruption",
    "mischief": "environment",
    "disorder": "catalogue",
    "incidents": "world",
    "plans": "calls",
}
"""Names of modules."""


DEPLOYED = {".yaml", ".md", ".txt", ".service", ".conf", ".cfg", ".lua", ".tpl"}
OF_THE_LINT = {"voice.py", "test_voice.py"}
"""They name the words."""


@dataclass(frozen=True)
class Allowed:
    words: str
    where: str
    """The start of a path."""
    why: str


ALLOWED = (
    Allowed("mended", "CHANGELOG.md", "the heading 'Found and mended' is the project's convention"),
    Allowed(
        "answers",
        "src/ebbtide/gate/http.py",
        "what the gate answers to a client, not errors of Kubernetes",
    ),
    Allowed(
        "begun",
        "src/ebbtide/simulator/",
        "operation.begun is a kind of the log, and a key of `simulate --json`",
    ),
    Allowed(
        "consolidation_owes|consolidations_in_vain|unclean_runs",
        "src/ebbtide/model/",
        "the record is stored with every decision by the names of its fields, and old ones are replayed",
    ),
    Allowed(
        "leaving",
        "src/ebbtide/gate/held.py",
        "clients that leave while they are held: its only meaning there",
    ),
)


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    words: str
    instead: str
    text: str

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: "{self.words}": write {self.instead}\n    {self.text}'


Piece = tuple[int, str]
"""The line where a piece of prose starts, and its text."""


def prose_of(path: Path, name: str) -> Iterator[Piece]:
    text = path.read_text("utf-8")
    match path.suffix:
        case ".py":
            yield from _python(text) if name.startswith("src/") else _test(text)
        case ".md":
            yield from _markdown(_unreleased(text) if path.name == "CHANGELOG.md" else text)
        case ".js" | ".html" | ".css" | ".jinja":
            yield from _page(text)
        case ".txt":
            yield 1, text
        case _:
            yield from _configured(text)


def _python(text: str) -> Iterator[Piece]:
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.search(r"\S\s+\S", node.value)
        ):
            yield node.lineno, node.value
    yield from _comments(text)


def _test(text: str) -> Iterator[Piece]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.replace("_", " ")
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield (
                node.lineno,
                re.sub(r'"[^"]*"', lambda quoted: "~" * len(quoted.group()), str(node.value.value)),
            )
    yield from _comments(text)


def _comments(text: str) -> Iterator[Piece]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _markdown(text: str) -> Iterator[Piece]:
    fenced = False
    lines = []
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        lines.append("" if fenced else re.sub(r"`[^`]*`|\]\([^)]*\)", "CODE", line))
    yield 1, "\n".join(lines)


def _unreleased(text: str) -> str:
    """The part under the topmost heading, if that says that it is not released."""
    intro, *versions = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return (
        intro + versions[0]
        if re.match(r"## .*(unreleased|not yet released)", versions[0], re.IGNORECASE)
        else ""
    )


def _page(text: str) -> Iterator[Piece]:
    """Scripts, styles and HTML: comments, and literals or text with a space."""
    for found in re.finditer(
        r'"[^"\n]* [^"\n]*"|`[^`]* [^`]*`|//[^\n]*|/\*.*?\*/|>[^<>{}]*<|<!--.*?-->', text, re.DOTALL
    ):
        yield text.count("\n", 0, found.start()) + 1, re.sub(r"\$\{[^}]*\}|class=\S+", "", found.group())


def _configured(text: str) -> Iterator[Piece]:
    """Manifests, templates and units: comments, and what is said of a parameter or an alarm."""
    for number, line in enumerate(text.splitlines(), 1):
        found = re.search(r"(^|\s)# (.*)|\b(?:\w*[Dd]escription|summary): (.*)", line)
        if found is not None:
            yield number, found.group()


def read_paths(root: Path) -> Iterator[Path]:
    for name in ("README", "GLOSSARY", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SECURITY"):
        yield root / f"{name}.md"
    yield from sorted((root / "docs").rglob("*.md"))
    yield from sorted(path for path in (root / "deploy").rglob("*") if path.suffix in DEPLOYED)
    yield from sorted(root.glob("Containerfile"))
    source = root / "src" / "ebbtide"
    for suffix in ("py", "js", "html", "css", "jinja", "yaml"):
        yield from sorted(source.rglob(f"*.{suffix}"))
    for folder in ("tests", "bench", "scripts"):
        yield from sorted(path for path in (root / folder).rglob("*.py") if path.name not in OF_THE_LINT)


def findings(root: Path) -> Iterator[Finding]:
    patterns = [
        (re.compile(rf"\b({words})\b".replace(" ", r"\s+"), re.IGNORECASE), instead)
        for words, instead in INSTEAD.items()
    ]
    for path in read_paths(root):
        name = path.relative_to(root).as_posix()
        for start, text in prose_of(path, name):
            for pattern, instead in patterns:
                for found in pattern.finditer(
                    re.sub(r"`[^`\n]*`", lambda code: "~" * len(code.group()), text)
                ):
                    words = " ".join(found.group().split())
                    if not _is_allowed(name, words):
                        line = text.count("\n", 0, found.start())
                        yield Finding(name, start + line, words, instead, text.splitlines()[line].strip())


def names(root: Path) -> Iterator[Finding]:
    """Names that were given up, where they are defined again."""
    for path in sorted((root / "src" / "ebbtide").rglob("*.py")):
        where = path.relative_to(root).as_posix()
        given = [(1, path.stem, GIVEN_UP_FILES)]
        given += [(line, name, GIVEN_UP) for line, name in _defined(ast.parse(path.read_text("utf-8")))]
        for line, name, instead in given:
            if name in instead and not _is_allowed(where, name):
                yield Finding(where, line, name, instead[name], "this name was given up")


def _defined(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield node.lineno, name
            case ast.arg():
                yield node.lineno, node.arg


def _is_allowed(name: str, words: str) -> bool:
    return any(
        re.fullmatch(one.words, words, re.IGNORECASE) and name.startswith(one.where) for one in ALLOWED
    )


def main() -> None:
    found = [*findings(ROOT), *names(ROOT)]
    print(*found, sep="\n")
    if found:
        sys.exit(f"{len(found)} words or names have a plainer equivalent; see CONTRIBUTING.md, Voice")


if __name__ == "__main__":
    main()
