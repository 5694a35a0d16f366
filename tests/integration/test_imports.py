"""What the core may import is a list, so every new import is a decision; and what starts without extras."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "ebbtide"
PURE = {
    "__future__",
    "bisect",
    "collections",
    "contextlib",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "functools",
    "heapq",
    "itertools",
    "math",
    "operator",
    "re",
    "typing",
    "zlib",
}
"""Of the standard library: no I/O, no clock, no randomness."""
EXCEPTIONS = {
    "cronsim": {"core/schedule.py"},  # cron lines; the time is an argument
    "zoneinfo": {"core/schedule.py", "core/scale_to_zero/rules.py", "core/scale_to_zero/savings.py"},
    "highspy": {"core/packing"},  # the solver: an input that is recorded (`Packer`)
    "numpy": {"core/packing", "core/consolidation/fill_many.py", "core/forecast"},
    "importlib": {"core/packing"},  # asks whether the solver is installed
}
INSIDE = ("ebbtide.core", "ebbtide.model", "ebbtide.errors", "ebbtide.redact")


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def is_allowed(module: str, where: str) -> bool:
    top = module.split(".", maxsplit=1)[0]
    if top == "ebbtide":
        return module.startswith(INSIDE)
    return top in PURE or where.startswith(tuple(EXCEPTIONS.get(top, {"nowhere"})))


def test_core_and_model_import_only_what_is_allowed() -> None:
    refused = {
        f"{where}: {module}"
        for room in ("core", "model")
        for path in (SOURCE / room).rglob("*.py")
        for where in [path.relative_to(SOURCE).as_posix()]
        for module in imports(path)
        if not is_allowed(module, where)
    }
    assert refused == set()


WITHOUT = """
import importlib, sys
for name in {left_out!r}:
    sys.modules[name] = None
importlib.import_module({module!r})
"""


@pytest.mark.parametrize(
    "module",
    ["ebbtide.entrypoints.cli.demo_page", "ebbtide.entrypoints.api.serving", "ebbtide.entrypoints.cli"],
)
def test_pages_and_api_do_not_need_what_only_gate_and_foresight_install(module: str) -> None:
    """`make demo` of a bare clone has neither: two modules that were merged took it down."""
    code = WITHOUT.format(left_out=("httptools", "uvloop", "numpy", "highspy", "optuna"), module=module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
