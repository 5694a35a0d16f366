"""Measure the source tree: its files, functions, names, comments, and the files on four walked paths.

    python -m scripts.house [--at REVISION ...]

Prints one column for the working tree and one for each revision, which is read with `git archive`. The walked
paths come from the static call graph of `scripts.call_graph`.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from scripts.call_graph import WALKS, CallGraph

ROOT = Path(__file__).resolve().parent.parent
NEWCOMER = "newcomer's reading, lines"


@dataclass(frozen=True)
class Source:
    module: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())


def read_sources(package: Path) -> list[Source]:
    found = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text("utf-8")
        name = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        found.append(Source(name, text, ast.parse(text)))
    return found


def measure(root: Path) -> dict[str, str]:
    sources = read_sources(root / "src" / "ebbtide")
    files = [source.lines for source in sources]
    functions = [length for source in sources for length in function_lengths(source)]
    comments = sum(comment_lines(source) for source in sources)
    names = [name for names in class_names(sources).values() for name in names]
    graph = CallGraph(root / "src" / "ebbtide")
    found = {
        "files": str(len(files)),
        "lines": str(sum(files)),
        "file length, median": f"{median(files):.0f}",
        "file length, p90": str(percentile(files, 0.9)),
        "functions": str(len(functions)),
        "function length, median": f"{median(functions):.0f}",
        "function length, p90": str(percentile(functions, 0.9)),
        "modules with one importer": str(len(with_one_importer(sources))),
        "comment share of lines": f"{comments / sum(files):.1%}",
        "class names used twice": str(len({name for name, count in Counter(names).items() if count > 1})),
    }
    for walk in WALKS:
        try:
            found[f"files on: {walk.name}"] = str(len(graph.files_on(walk)))
        except LookupError as error:
            found[f"files on: {walk.name}"] = f"unknown ({error})"
    found[NEWCOMER] = str(newcomer_lines(root))
    return found


def function_lengths(source: Source) -> Iterator[int]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def comment_lines(source: Source) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
    return len({token.start[0] for token in tokens if token.type == tokenize.COMMENT})


def class_names(sources: Sequence[Source]) -> dict[str, list[str]]:
    return {
        source.module: [node.name for node in source.tree.body if isinstance(node, ast.ClassDef)]
        for source in sources
    }


def with_one_importer(sources: Sequence[Source]) -> list[str]:
    modules = {source.module for source in sources}
    importers: Counter[str] = Counter()
    for source in sources:
        importers.update(imports_of(source.tree, modules) - {source.module})
    return sorted(module for module, count in importers.items() if count == 1)


def imports_of(tree: ast.Module, modules: set[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                whole = f"{node.module}.{each.name}"
                found.add(whole if whole in modules else node.module)
    return found & modules


def percentile(values: Sequence[int], share: float) -> int:
    return sorted(values)[int(share * (len(values) - 1))]


def reading_path(root: Path) -> list[str]:
    """The files that ARCHITECTURE.md names for newcomers: the list under the heading about the next tick."""
    lines = iter((root / "ARCHITECTURE.md").read_text("utf-8").splitlines())
    for line in lines:
        if line.startswith("### Read these"):
            break
    return [
        line.split("`")[1]
        for line in lines_until_heading(lines)
        if line.lstrip().startswith(("1.", "2.", "3.", "4.", "5.", "6.", "7."))
    ]


def lines_until_heading(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith("#"):
            return
        yield line


def newcomer_lines(root: Path) -> str:
    paths = reading_path(root)
    if not paths:
        return "no list"
    return str(sum(len((root / path).read_text("utf-8").splitlines()) for path in paths))


def archived(revision: str, folder: Path) -> Path:
    command = ["git", "-C", str(ROOT), "archive", revision, "src", "ARCHITECTURE.md", "GLOSSARY.md"]
    packed = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def table(columns: dict[str, dict[str, str]]) -> str:
    rows = [["", *columns]]
    for name in next(iter(columns.values())):
        rows.append([name, *(column[name] for column in columns.values())])
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--at", action="append", default=[], metavar="REVISION", help="a revision to compare with"
    )
    parser.add_argument("--walks", action="store_true", help="also list the files on each walked path")
    options = parser.parse_args()
    columns = {}
    for revision in options.at:
        with tempfile.TemporaryDirectory() as folder:
            columns[revision] = measure(archived(revision, Path(folder)))
    columns["working tree"] = measure(ROOT)
    print(table(columns))
    if options.walks:
        graph = CallGraph(ROOT / "src" / "ebbtide")
        for walk in WALKS:
            print(f"\n{walk.name}:", *graph.files_on(walk), sep="\n  ")


if __name__ == "__main__":
    main()
