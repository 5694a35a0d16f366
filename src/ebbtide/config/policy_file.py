"""Policies in files of their own, one to a document, for `ebbtide policy apply`. Everything is checked before
anything is given back, and what is wrong is said with its place, all at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import ValidationError

from ebbtide.config.checks import check_policies
from ebbtide.config.document import Read, parse_documents
from ebbtide.config.policies import PolicyKeys
from ebbtide.config.problems import Problem, path_text, problems_in
from ebbtide.config.section import Section
from ebbtide.errors import ConfigError

HINT = "Correct it and run the command again."
AROUND = 2
"""Problems are found under `policies[3].name`; the first two parts are not in the file."""


class _PolicyFile(Section):
    policies: tuple[PolicyKeys, ...]


def read_policies(texts: Iterable[tuple[str, str]], pools: Sequence[str]) -> tuple[PolicyKeys, ...]:
    """Of texts, each with the name of its file. `ConfigError` with every problem of all of them."""
    documents = [read for name, text in texts for read in parse_documents(text, name, HINT)]
    if not documents:
        raise ConfigError(f"there is no policy in what was given; nothing was touched. {HINT}")
    try:
        found = _PolicyFile.model_validate({"policies": tuple(read.values for read in documents)}).policies
        problems = list(check_policies(found, pools))
    except ValidationError as error:
        problems = problems_in(error)
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "\n".join(f"  {_line(problem, documents)}" for problem in problems)
        raise ConfigError(f"the policies have {count}; nothing was touched.\n{lines}\n{HINT}")
    return found


def _line(problem: Problem, documents: Sequence[Read]) -> str:
    _, number, *rest = problem.path
    read, path = documents[int(number)], tuple(rest)
    line = read.line(path) or read.lines[()]
    where = f", {path_text(path)}" if path else ""
    return f"{read.name} line {line}{where}: {problem.says}"
