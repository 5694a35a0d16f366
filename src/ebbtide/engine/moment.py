"""A time that records each comparison made with it, to know for how long the result stays the same.

    moment = Moment(now)
    passed = moment - since >= 600       # False, and the moment notes: this changes at since + 600
    moment.holds_until                   # the first second at which a comparison may come out otherwise

It stands in for the `now` of a pure function. It can be compared, seconds can be added and subtracted, and
a duration can be split into minutes or hours; that is all the core does with the time. Anything else raises
TypeError, so a use that is not understood is never taken for one that changes nothing.

A text made of it carries, between two `MARK`, what the number before it was made of: `said_at` writes the
same text for another time.
"""

from __future__ import annotations

from math import floor, inf, isfinite
from typing import NoReturn

MARK = "\x00"
"""In every text that says a time or a duration counted from now; no other text has it."""


def unmarked(text: str) -> str:
    """As it would have been made of the plain time."""
    return "".join(text.split(MARK)[::2])


def said_at(text: str, now: int) -> str:
    """The same text, made at another time for which the moment holds."""
    parts = text.split(MARK)
    for place in range(1, len(parts), 2):
        length, sign, fixed, spec = parts[place].split(",", 3)
        number = format(int(sign) * now + int(fixed), spec)
        parts[place - 1] = parts[place - 1][: -int(length)] + number
    return "".join(parts[::2])


class Moment:
    """The time `value`, as seconds since the epoch, or a duration from or to a fixed time."""

    __slots__ = ("_fixed", "_notes", "_sign")

    def __init__(self, value: int) -> None:
        self._sign, self._fixed, self._notes = 1, 0, _Notes(value)

    @property
    def holds_until(self) -> float:
        """All comparisons so far come out the same at every whole second before this."""
        return self._notes.until

    def _with(self, sign: int, fixed: int) -> Moment:
        other = object.__new__(Moment)
        other._sign, other._fixed, other._notes = sign, fixed, self._notes
        return other

    def _value(self) -> int:
        return self._sign * self._notes.now + self._fixed

    def __add__(self, seconds: object) -> Moment:
        if type(seconds) is int:
            return self._with(self._sign, self._fixed + seconds)
        return NotImplemented

    __radd__ = __add__

    def __sub__(self, other: object) -> Moment | int:
        if type(other) is int:
            return self._with(self._sign, self._fixed - other)
        if isinstance(other, Moment) and other._sign == self._sign:
            return self._fixed - other._fixed
        return NotImplemented

    def __rsub__(self, other: object) -> Moment:
        if type(other) is int:
            return self._with(-self._sign, other - self._fixed)
        return NotImplemented

    def __floordiv__(self, seconds: object) -> Moment | int:
        """How many whole spans of so many seconds; noted is when it becomes one more or one less."""
        if seconds == 1:
            return self
        if type(seconds) is not int or seconds < 1:
            return NotImplemented
        spans, more = divmod(self._value(), seconds)
        self._notes.ends_in(seconds - more if self._sign > 0 else more + 1)
        return spans

    def __divmod__(self, seconds: object) -> tuple[int, Moment]:
        if type(seconds) is not int or seconds <= 1:
            return NotImplemented
        spans = self // seconds
        assert isinstance(spans, int)
        return spans, self._with(self._sign, self._fixed - spans * seconds)

    def _compared(self, other: object) -> float:
        """How much larger it is; what comes of a comparison stays so until the difference becomes 0."""
        if isinstance(other, Moment):
            if other._sign != self._sign:
                raise TypeError("a moment is compared with a time that moves the other way")
            return self._fixed - other._fixed
        if not isinstance(other, int | float):
            raise TypeError(f"a moment is compared with {type(other).__name__}")
        more = self._value() - other
        if more == 0:
            self._notes.ends_in(1)
        elif isfinite(more) and (more < 0) == (self._sign > 0):
            self._notes.ends_in(max(1, floor(abs(more))))
        return more

    def __lt__(self, other: object) -> bool:
        return self._compared(other) < 0

    def __le__(self, other: object) -> bool:
        return self._compared(other) <= 0

    def __gt__(self, other: object) -> bool:
        return self._compared(other) > 0

    def __ge__(self, other: object) -> bool:
        return self._compared(other) >= 0

    def __eq__(self, other: object) -> bool:
        return self._compared(other) == 0

    def __ne__(self, other: object) -> bool:
        return self._compared(other) != 0

    def __bool__(self) -> bool:
        return self._compared(0) != 0

    def __format__(self, spec: str) -> str:
        said = format(self._value(), spec)
        # After the number: texts that begin with it are sorted as they are without the mark.
        return f"{said}{MARK}{len(said)},{self._sign},{self._fixed},{spec}{MARK}"

    def __str__(self) -> str:
        return format(self)

    def __hash__(self) -> NoReturn:
        raise TypeError("a moment is not a key: what is found by it changes with every second")


class _Notes:
    __slots__ = ("now", "until")

    def __init__(self, now: int) -> None:
        self.now = now
        self.until: float = inf

    def ends_in(self, seconds: int) -> None:
        self.until = min(self.until, self.now + seconds)
