"""What a state machine answers when it is advanced: its next state, and the effects that follow it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State")
Effects = TypeVar("Effects")


@dataclass(frozen=True, slots=True)
class Step(Generic[State, Effects]):
    state: State
    """To be written first."""
    effects: tuple[Effects, ...] = ()
    """To be performed after that; each is safe to repeat."""
