"""Changed code put into functions that exist already, wherever they are held."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from types import CodeType, FunctionType

from tests.mutation.chosen import PACKAGE
from tests.mutation.clauses import Clause
from tests.mutation.mutants import Mutant

Key = tuple[str, str, int]


class CannotBePlanted(Exception):
    """The changed function closes over other variables than the one that is there."""


class Functions:
    """All functions of the package in this process. Made once, before the forks."""

    def __init__(self) -> None:
        self._found: dict[Key, list[FunctionType]] = {}
        self._kept: list[functools._lru_cache_wrapper[object]] = []
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType) and thing.__code__.co_filename.startswith(str(PACKAGE)):
                self._found.setdefault(_key(thing.__code__), []).append(thing)
            elif isinstance(thing, functools._lru_cache_wrapper) and thing.__module__.startswith("ebbtide"):
                self._kept.append(thing)

    def plant(self, mutant: Mutant | Clause) -> None:
        """In this process."""
        if isinstance(mutant, Clause):
            mutant.plant()
        else:
            self._replace(mutant)
        for kept in self._kept:
            kept.cache_clear()  # what the original answered says nothing about the mutant

    def _replace(self, mutant: Mutant) -> None:
        """Functions defined inside of others are made from the code of the outermost."""
        planted = False
        for code in _codes(mutant.code()):
            name = code.co_qualname
            if name != mutant.function and not name.startswith(f"{mutant.function}.<locals>"):
                continue
            for function in self._found.get(_key(code), ()):
                try:
                    function.__code__ = code
                except ValueError as error:
                    raise CannotBePlanted(str(error)) from error
                planted = True
        if not planted:
            raise CannotBePlanted(f"there is no function {mutant.function} in this process")


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _key(code: CodeType) -> Key:
    return code.co_filename, code.co_qualname, code.co_firstlineno
