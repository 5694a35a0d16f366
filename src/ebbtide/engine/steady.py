"""Does not compute again what provably comes out the same: for simulations, where most ticks see what the
last one saw. A time that notes what is asked of it tells for how long an answer holds.

The last answer is used where all of this holds, and is computed again otherwise:

- The tick sees the very same cluster, instances and settings, and the same CPU.
- The record is the same, except for what neither step reads. A decision reads how much demand rose, and not
  when that was noted.
- No comparison with the time that the last computation made comes out otherwise by now. That computation ran
  with a `Moment` as its time, which notes them all; where it could not, its answer is not used again.
Only a decision to do nothing is used again, and never one that goes to the log. Nobody is shown the single
checks of any other: where they say durations, those are not made for people. Its sentence is, and is written
again for each tick.

A time that records each comparison made with it, to know for how long the result stays the same.

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

from copy import copy
from dataclasses import dataclass, fields, replace
from itertools import groupby
from math import floor, inf, isfinite
from operator import attrgetter
from typing import Any, NoReturn, cast

from ebbtide.core.consolidation.pace import PARTS
from ebbtide.core.nodes.decide import decide
from ebbtide.engine.ports import ALWAYS, Tracked
from ebbtide.model.decision import Action, Decision
from ebbtide.model.pod import Budget
from ebbtide.model.record import Record, changed
from ebbtide.model.settings import JudgedBy, Settings
from ebbtide.model.snapshot import ClusterView, Snapshot

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
        """How much larger it is; the result of a comparison stays so until the difference becomes 0."""
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


UNREAD = ("rev", "lock_owner", "lock_until", "lock_token", "last_said", "decision_key", "decision_logged_at")
"""Fields of the record that are there for the stores, for people and for the log."""
DERIVED = (
    "instance_with_id",
    "instance_with_key",
    "instance_of",
    "_instance_at",
    "node_of",
    "alive",
    "lone",
    "unmatched",
    "working",
    "schedulable",
    "enlisted",
    "alive_by_pool",
)
"""What a snapshot derives from nodes and instances alone."""
NOT_UNDERSTOOD = (TypeError, AttributeError)
"""What a `Moment`, or a view that is watched, answers to what it cannot do; then all is computed as usual."""
_values = attrgetter(*(field.name for field in fields(Record) if field.name not in (*UNREAD, "ticked_at")))
_plain_values = attrgetter(
    *(field.name for field in fields(Record) if field.name not in (*UNREAD, "ticked_at", "demand"))
)


def _decided_by(record: Record) -> Any:
    """What a decision reads. Of demand it asks only how much it rose: not when, and not for how long it
    stayed the same."""
    amounts = [(note.cpu_milli, note.memory_mib) for note in record.demand]
    return _plain_values(record), [amount for amount, _ in groupby(amounts)]


@dataclass(frozen=True, slots=True)
class _Known:
    """What was computed, from what, and until when it holds."""

    snapshot: Snapshot
    settings: Settings
    values: Any
    since: int
    until: float
    reads_budgets: bool
    decision: Decision | None = None
    says: str = ""
    """The sentence of the decision, with what its durations were made of."""

    def holds(self, snapshot: Snapshot, settings: Settings, now: int) -> bool:
        """The time of the computation is the earliest it holds for: a clock that went back ends it. The time
        between the look and the computation is as long as it was then."""
        return (
            self.since <= now < self.until
            and now - snapshot.at == self.since - self.snapshot.at
            and settings is self.settings
            and self.sees(snapshot)
        )

    def sees(self, snapshot: Snapshot) -> bool:
        budgets = self.snapshot.cluster.budgets
        return _same_sight(snapshot, self.snapshot) and (
            not self.reads_budgets or snapshot.cluster.budgets is budgets
        )


@dataclass(frozen=True, slots=True)
class Still:
    """What every tick before `until` does that sees what the last one saw: nothing, and says so."""

    until: float
    _decided: _Known
    _tracked: _Known

    def decision_at(self, now: int) -> Decision:
        decision = self._decided.decision
        assert decision is not None
        return replace(decision, at=now, reason=said_at(self._decided.says, now))

    def seen_in(self, snapshot: Snapshot) -> bool:
        """Whether this is what the last tick saw."""
        return self._decided.sees(snapshot) and self._tracked.sees(snapshot)


class Steady:
    def __init__(self) -> None:
        self._tracked: _Known | None = None
        self._decided: _Known | None = None
        self._seen: Snapshot | None = None
        self._changed = True
        """Whether the last tick saw something else than the one before."""
        self._stands = False
        """Whether the last tick found nothing to do, and nothing for the log."""
        self.computed = 0
        self.repeated = 0
        """How many decisions were computed, and how many were used again."""
        self.used_last = False
        """Whether the last one was used again."""

    def sees_again(self, snapshot: Snapshot) -> bool:
        """Whether the last tick saw the same, so the next may have nothing else to say."""
        seen = self._seen
        return seen is not None and _same_sight(snapshot, seen)

    def still(self, record: Record, at: int, seconds: float) -> Still | None:
        """What a tick at that time does, and those that follow every so many seconds, where they see what the
        last one saw and find this record; None where they may do something else."""
        decided, seen = self._decided, self._seen
        if not self._stands or decided is None or seen is None or _decided_by(record) != decided.values:
            return None
        settings = decided.settings
        longest = max(at - record.ticked_at, seconds)
        if at < record.ticked_at or longest > settings.max_tick_gap_seconds:
            return None
        if self._tracked is None:
            # The last tick changed the timers, so it is not known yet whether the next one would.
            self._tracked = _standing(_seen_at(seen, seen.at + at - record.ticked_at), record, settings, at)
        tracked = self._tracked
        if tracked is None or _values(record) != tracked.values:
            return None
        logged = record.decision_logged_at + settings.decision_log_seconds
        return Still(min(decided.until, tracked.until, logged), decided, tracked)

    def track(self, snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Tracked:
        self._stands = False
        known, seen, self._seen = self._tracked, self._seen, snapshot
        self._changed = seen is None or not _same_sight(snapshot, seen)
        if seen is not None:
            _derive_from(seen, snapshot)
        # Only where nothing changed is it likely that the timers stand still.
        recent = 0 <= now - record.ticked_at <= settings.max_tick_gap_seconds
        if recent and not self._changed:
            if known is not None and known.holds(snapshot, settings, now) and _values(record) == known.values:
                return changed(record, ticked_at=now), ()
            self._tracked = _standing(snapshot, record, settings, now)
            if self._tracked is not None:
                return changed(record, ticked_at=now), ()
        self._tracked = None
        return ALWAYS.track(snapshot, record, settings, now)

    def decide(
        self, snapshot: Snapshot, record: Record, settings: Settings, now: int, decision_id: str
    ) -> Decision:
        known = self._decided
        if (
            known is not None
            and known.decision is not None
            and not _goes_to_log(known.decision, record, settings, now)
            and known.holds(snapshot, settings, now)
            and _decided_by(record) == known.values
        ):
            self.repeated += 1
            self.used_last = True
            self._stands = True
            return replace(known.decision, id=decision_id, at=now, reason=said_at(known.says, now))
        self.computed += 1
        self.used_last = False
        acts = record.scaling_in_progress or (self._changed and _may_act(record, settings, now))
        asked = None if acts else _decided(snapshot, record, settings, now, decision_id)
        self._decided = asked
        found = asked.decision if asked is not None else None
        if asked is not None and found is not None and not _goes_to_log(found, record, settings, now):
            self._stands = True
            return found
        return ALWAYS.decide(snapshot, record, settings, now, decision_id)


def _same_sight(one: Snapshot, other: Snapshot) -> bool:
    """All but the disruption budgets, which few decisions ask for."""
    return (
        one.cluster.nodes is other.cluster.nodes
        and one.cluster.pods is other.cluster.pods
        and one.instances is other.instances
        and one.cpu.value == other.cpu.value
        and one.cpu.problem == other.cpu.problem
        and one.problems == other.problems
        and one.players == other.players
    )


def _seen_at(snapshot: Snapshot, at: int) -> Snapshot:
    """The same sight at another time, with all that was derived from it."""
    seen = copy(snapshot)
    vars(seen)["at"] = at
    return seen


def _may_act(record: Record, settings: Settings, now: int) -> bool:
    """Whether pods have been pending, or the cluster idle, for long enough. Then something is likely to be
    done, and only a decision to do nothing can be used again: it would be computed for nothing. Where this
    guess is wrong, the next tick that sees the same computes it again."""
    pending = record.pending_since and now - record.pending_since >= settings.pending_up_seconds
    if pending or not record.idle_since or settings.scale_down_by == JudgedBy.NODE:
        return bool(pending)
    idle, cooled = now - record.idle_since, now - record.last_scale_at
    return idle >= settings.idle_down_seconds and cooled >= settings.cooldown_down_seconds


def _goes_to_log(decision: Decision, record: Record, settings: Settings, now: int) -> bool:
    """All texts of what is logged must be those of now, also those of checks that passed."""
    repeats = decision.key == record.decision_key
    return not repeats or now - record.decision_logged_at >= settings.decision_log_seconds


def _derive_from(known: Snapshot, snapshot: Snapshot) -> None:
    """Take over what was derived from the same nodes and instances."""
    if known.cluster.nodes is snapshot.cluster.nodes and known.instances is snapshot.instances:
        derived = vars(known)
        vars(snapshot).update({name: derived[name] for name in DERIVED if name in derived})


class _Watched(ClusterView):
    """A view that notes whether its budgets were asked for."""

    asked: bool

    @property
    def budgets(self) -> tuple[Budget, ...]:
        self.__dict__["asked"] = True
        return cast(tuple[Budget, ...], self.__dict__["budgets"])


def _at(snapshot: Snapshot, moment: Moment, now: int) -> tuple[Snapshot, _Watched]:
    """The same sight, seen as long before that moment as it was before now."""
    view = object.__new__(_Watched)
    vars(view).update(vars(snapshot.cluster), asked=False)
    seen = _seen_at(snapshot, cast(int, moment - (now - snapshot.at)))
    vars(seen)["cluster"] = view
    return seen, view


def _standing(snapshot: Snapshot, record: Record, settings: Settings, now: int) -> _Known | None:
    """Until when bringing this record up to date changes nothing but `ticked_at`; none where it does."""
    if _notes_demand(record, settings, now):
        return None
    moment = Moment(now)
    # The last tick is always about as long ago as it is now: `Steady.track` asks that of each tick again.
    ticked_at = cast(int, moment - (now - record.ticked_at))
    seen, view = _at(snapshot, moment, now)
    try:
        after, warnings = ALWAYS.track(
            seen, changed(record, ticked_at=ticked_at), settings, cast(int, moment)
        )
        stands = not warnings and _values(after) == _values(record)
    except NOT_UNDERSTOOD:
        return None
    _derive_from(seen, snapshot)
    if not stands:
        return None
    return _Known(snapshot, settings, _values(record), now, moment.holds_until, view.asked)


def _notes_demand(record: Record, settings: Settings, now: int) -> bool:
    """Whether this tick adds or drops a note on demand. Then the timers change, which need not be computed to
    be known."""
    window = settings.settled_seconds
    return bool(window and record.demand) and (
        now - record.demand[-1].at >= max(1, window // PARTS) or now - record.demand[0].at >= window
    )


def _decided(
    snapshot: Snapshot, record: Record, settings: Settings, now: int, decision_id: str
) -> _Known | None:
    """A decision to do nothing, and until when it stays the same; none where there is more to it."""
    moment = Moment(now)
    (seen, view), same = _at(snapshot, moment, now), changed(record, ticked_at=cast(int, moment))
    try:
        found = decide(seen, same, settings, cast(int, moment), decision_id, brief=True)
    except NOT_UNDERSTOOD:
        return None
    _derive_from(seen, snapshot)
    if found.action is not Action.NOTHING:
        return None
    until, says = moment.holds_until, found.reason
    decision = replace(found, at=now, reason=unmarked(says))
    return _Known(snapshot, settings, _decided_by(record), now, until, view.asked, decision, says)
