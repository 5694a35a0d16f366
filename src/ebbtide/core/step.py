"""What a state machine answers when it is advanced: its next state, and the effects that follow it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

State = TypeVar("State")
Effects = TypeVar("Effects")


@dataclass(frozen=True, slots=True)
class Step(Generic[State, Effects]):
    state: State
    """To be written first."""
    effects: tuple[Effects, ...] = ()
    """To be performed after that; each is safe to repeat."""


class Breach(StrEnum):
    """What a step must never do."""

    STATE = "state"
    """It goes to a state that its table does not allow from where it is."""
    IDENTITY = "identity"
    """It is about another node, pod, launch or plan than before."""
    LOST = "lost"
    """A part of it is gone."""
    TAKEN_BACK = "taken_back"
    """What is set once was taken back: an abort, a termination, a wake, an interruption."""
    APPENDED = "appended"
    """A launch was added that is there already, or not at its beginning."""
    TOO_EARLY = "too_early"
    """A pod is moved before it may be."""


@dataclass(frozen=True, slots=True)
class Broken:
    cause: Breach
    about: str
    """The operation or the part of it that broke it."""
    says: str
