"""Whose CPU samples make an average: those of the Ready workers, as long as few enough lack one.

One dead or new worker without a sample must not end all scaling by CPU (row 27); but where more than a third
lack one, the others say too little about the whole.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from ebbtide.core.words import a_while, names_of

MOST_MISSING = 3
"""Known as long as not more than one in three lacks a fresh sample."""


def why_unknown(asked: Sequence[str], sampled: Container[str], max_age_seconds: int) -> str:
    """Why there is no average over the workers asked for, with their names; empty where there is one."""
    if not asked:
        return "there is no Ready worker to ask for"
    missing = [name for name in asked if name not in sampled]
    if len(missing) * MOST_MISSING <= len(asked):
        return ""
    return (
        f"{len(missing)} of {len(asked)} Ready workers have no sample of the last "
        f"{a_while(max_age_seconds)}, and more than a third is too many: {names_of(missing)}"
    )
