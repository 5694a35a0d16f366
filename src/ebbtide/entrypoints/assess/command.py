"""`ebbtide assess`: what a cluster costs and wastes, from a dump or live, read-only.

kubectl get nodes,pods,pdb,pv,pvc -A -o json | ebbtide assess -

Where the dump also holds what `kubectl get nodes.metrics.k8s.io -o json` prints, use is told as well.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from rich.console import Console

from ebbtide.adapters.kube.dump import Dump, read_dump
from ebbtide.core.prices import PriceBook
from ebbtide.entrypoints.assess.assessment import Used, assess
from ebbtide.entrypoints.assess.markdown import as_markdown
from ebbtide.entrypoints.assess.page import as_page
from ebbtide.entrypoints.assess.view import as_data, show
from ebbtide.errors import EbbtideError, Usage

LIVE = "live"
STDIN = "-"
WRONG_INPUT = 2


def assess_command(
    source: str, book: PriceBook, as_json: bool, html: Path | None, markdown: Path | None = None
) -> int:
    """`source` is a file, `-` for standard input, or `live` for the cluster of the kubeconfig."""
    try:
        dump = _read(source)
        used = {name: Used(*amounts) for name, amounts in dump.used.items()}
        result = assess(dump.view, book, int(time.time()), dump.notes, used=used)
        if html is not None:
            _write(html, as_page(result))
        if markdown is not None:
            _write(markdown, as_markdown(result))
    except EbbtideError as error:
        print(f"ebbtide assess: {error}", file=sys.stderr)
        return WRONG_INPUT
    if as_json:
        print(json.dumps(as_data(result), indent=2, ensure_ascii=False))
    else:
        show(result, Console())
    return 0


def _read(source: str) -> Dump:
    if source == STDIN:
        return read_dump(sys.stdin.buffer.read())
    if source == LIVE:
        return _read_live()
    try:
        return read_dump(Path(source).read_bytes())
    except OSError as cause:
        raise Usage(f"{source}: {cause.strerror}: name a file, - or live") from cause


def _read_live() -> Dump:
    from ebbtide.adapters.kube.connection import connect
    from ebbtide.adapters.kube.reading import list_view
    from ebbtide.adapters.kube.usage import read_used

    connection = connect()
    try:
        return Dump(list_view(connection), used=read_used(connection))
    finally:
        connection.close()


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as cause:
        raise Usage(f"{path}: {cause.strerror}: name a place that can be written") from cause
