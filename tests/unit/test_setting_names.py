"""What a person reads in a decision, wherever it is shown."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import ebbtide.core
from ebbtide.config.reference import reference

CORE = Path(ebbtide.core.__file__).parent
KEY = re.compile(r"^\| `([a-z_.]+)` \| `([A-Z_]+)` \|", re.MULTILINE)
"""A row of the reference: the key of a setting and its environment variable."""


def test_a_setting_is_named_by_the_key_that_a_person_writes() -> None:
    """Decisions said `PENDING_UP_SEC is 3 min`, next to others that said `evict_local_storage is off`."""
    variables = {variable for key, variable in KEY.findall(reference()) if "_" in key}
    assert {"PENDING_UP_SEC", "MIN_WORKERS", "CONSOLIDATION_MIN_IDLE_SEC"} <= variables
    named = re.compile(rf"(?<![A-Z_`])(?:{'|'.join(sorted(variables))})(?![A-Z_])")
    found = [f"{where}: {text}" for where, text in sentences() if named.search(text)]
    assert found == []


def sentences() -> Iterator[tuple[str, str]]:
    """Every text in the code of the core, except what explains the code."""
    for path in sorted(CORE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
                yield f"{path.relative_to(CORE)}:{node.lineno}", node.value
