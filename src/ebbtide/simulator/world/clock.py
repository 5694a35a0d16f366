"""Virtual time. It moves only when somebody sleeps or jumps.

    clock = VirtualClock(1_700_000_000)
    clock.sleep(60)                     # sixty seconds pass at once
    runner_clock = SkewedClock(clock, seconds=-5)   # a runner whose own clock is five seconds slow

The world reads the true clock, a runner its own: that is how clock skew and jumps are played.
"""

from __future__ import annotations

from collections.abc import Callable


class VirtualClock:
    """Seconds since an epoch of its own. `on_move` is told of every move, so a world can follow."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = float(now)
        self.on_move: Callable[[float], None] | None = None

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self.jump(seconds)

    def jump(self, seconds: float) -> None:
        """Move by so many seconds. The true clock never goes back: a world cannot be undone."""
        if seconds < 0:
            raise ValueError(f"the true clock cannot go back by {-seconds} s; skew a runner's clock instead")
        self._now += seconds
        if self.on_move is not None:
            self.on_move(self._now)

    def move_to(self, moment: float) -> None:
        self.jump(max(moment - self._now, 0.0))


class SkewedClock:
    """What one runner believes the time to be: the true time and a difference that may jump."""

    def __init__(self, true: VirtualClock, seconds: float = 0.0) -> None:
        self._true = true
        self.seconds = seconds

    def now(self) -> float:
        return self._true.now() + self.seconds

    def sleep(self, seconds: float) -> None:
        self._true.sleep(seconds)

    def jump(self, seconds: float) -> None:
        """Change this runner's belief alone; it may go back."""
        self.seconds += seconds
