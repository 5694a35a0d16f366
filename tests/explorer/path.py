"""One path through a scene: who runs when, what goes wrong, and which state that leads to."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from tests.explorer.actors import Actor
from tests.explorer.copying import copy_stage, dismantle
from tests.explorer.entries import Entry, Left, Snapshot
from tests.explorer.scenes import STEP
from tests.explorer.sometimes import Witness
from tests.explorer.state import State

if TYPE_CHECKING:
    from tests.explorer.search import Search

LONG_STEPS = 4
"""Steps that a long freeze lasts: more than a lease."""
TICK_SECONDS = 30.0
FAULTS = ("crash before", "crash after", "lost reply", "failed")
FAULTS_BEFORE_ANOTHER = ("crash before", "lost reply", "failed")
"""Dead after a call is dead before the next; so it is left out unless this may be the last."""
LAST_CALLS = ("store.release", "store.append", "inbox.acknowledge", "store.write", "policies.write_state")
READ_FAULTS = {
    "store.load": ("unread",),
    "inbox.receive": ("unread",),
    "cluster.read": ("unread", "shown empty", "shown stale", "shown holed"),
    "cloud.list_instances": ("unread", "shown empty", "shown stale"),
    "cluster.read_pods_on": ("unread",),
    "policies.list_policies": ("unread",),
    "policies.list_states": ("unread",),
    "policies.find_policy": ("unread",),
    "policies.find_state": ("unread",),
    "workloads.read": ("unread",),
    "signals.read_values": ("unread",),
    "services.read": ("unread",),
    "services.gates": ("unread",),
    "services.list_taken": ("unread",),
}
DELAYS = ("freeze", "freeze long", "switch", "skip")
NOTHING: Left = (0, 0, 0, 0)


class Pruned(BaseException):
    """This state is known, with no less to spend: all that follows was, or will be, seen."""


def _closure(left: Left) -> int:
    """A bit for every budget that is covered by having explored this one."""
    return sum(1 << _bit((f, d, e, t)) for f, d, e, t in product(*(range(one + 1) for one in left)))


def _bit(left: Left) -> int:
    return left[0] + 3 * left[1] + 9 * left[2] + 27 * left[3]


_closures: dict[Left, int] = {}


def _successor(actor: Actor) -> Actor:
    """Who comes after one that died; with a name of its own, so it has to wait for the lease."""
    return actor.fork("'")


class Path:
    def __init__(self, search: Search, entry: Entry, replays: bool = False) -> None:
        self.search, self.entry, self.replays = search, entry, replays
        snapshot = self.snapshot = entry.snapshot
        self.stage = copy_stage(snapshot.stage)
        self.state = State(self.stage)
        self.actors = [actor.fork() for actor in snapshot.actors]
        self.step, self.turn, self.left = snapshot.step, snapshot.turn, snapshot.left
        self.taken: list[int] = []
        self.trail: list[str] = []
        self.moves = 0
        self.runs = 0
        self.in_turn = False
        """Whether who runs now does so in its turn, and not because it woke."""
        self.at_the_end = False
        self.verb = ""
        """The call that is about to be made."""
        self.handed_on = False
        """Whether the stage now belongs to a snapshot."""

    @property
    def witness(self) -> Witness:
        return self.search.witness

    @property
    def calm(self) -> bool:
        return self.step >= self.search.bounds.steps or self.left[3] == 0

    # -- who runs when -------------------------------------------------------------------------------

    def run(self) -> None:
        while True:
            if self.turn == len(self.actors):
                if not self._next_step():
                    return
                continue
            actor = self.actors[self.turn]
            if not actor.frozen:
                self._tick(actor)
            self.turn += 1
            self._wake()
            if self._stops_here():
                return

    def _tick(self, actor: Actor) -> None:
        while True:
            choice = self._choose(self._turn_options(actor), f"{actor.owner} turn")
            if choice == "go" and not actor.waits:
                break
            if choice in ("go", "skip"):
                return
            if choice == "wake":
                actor.asks = True
                self.stage.world.disturbances += 1
                continue
            kind, _, subject = choice.partition(" ")
            self.stage.world.disturbances += 1
            self.stage.world.plan(self.stage.world.now, kind, subject)
            self.stage.world.advance_to(self.stage.world.now)
            self.search.met.add(("event", kind))
        actor.started = self.stage.clock.now()
        actor.begins = self.state.begins()
        actor.start(self.stage, self, TICK_SECONDS)
        self.in_turn = True
        self._drive(actor)
        self.in_turn = False

    def _drive(self, actor: Actor) -> None:
        """Let it run until its tick is over or it is frozen."""
        actor.wakes_at = -1.0
        assert actor.thread is not None
        actor.thread.switch()
        self.runs += 1
        if not actor.thread.dead:
            return
        actor.end_tick()
        if actor.crashed:
            number = self.actors.index(actor)
            self.actors[number] = _successor(actor)

    def _wake(self) -> None:
        """Those continue whose time has come and who were frozen while somebody else ran."""
        now = self.stage.clock.now()
        while True:
            due = [a for a in self.actors if a.frozen and a.wakes_at <= now and self.runs > a.wakes_after]
            if not due:
                return
            self._drive(min(due, key=lambda actor: actor.wakes_after))

    def _next_step(self) -> bool:
        """Let time move on; False when this path ends here."""
        if self.search_ends():
            self.at_the_end = True
            return False
        if any(actor.frozen for actor in self.actors) and not self.replays:
            if self.moves == self.entry.moves:
                self._note(self._digest("time moves on"))
                self._later()
                return False
            self.moves += 1
        clock = self.stage.clock
        clock.sleep(STEP)
        self.stage.world.advance_to(clock.now())
        self.step += 1
        self.turn = 0
        self.trail.append(f"-- {clock.now():.0f}")
        self._wake()
        return True

    def search_ends(self) -> bool:
        return self.step >= self.search.bounds.steps + self.search.scene.calm_steps

    def _later(self) -> None:
        self.search.push(self.step + 1, Entry(self.snapshot, tuple(self.taken), self.moves + 1))

    def _stops_here(self) -> bool:
        """Between two ticks, with nobody frozen, the state can be copied: others continue from there."""
        if self.replays or any(actor.frozen for actor in self.actors):
            return bool(self.stage.checker.violations)
        self._note(self._digest("between"))
        if self.calm or self.stage.checker.violations:
            return bool(self.stage.checker.violations)
        self.search.push(self.step, Entry(self.snapshot_now()))
        return True

    def snapshot_now(self) -> Snapshot:
        """At the end of this path, which has no further use for its stage."""
        self.handed_on = True
        self.stage.checker.acts.clear()
        choices = self.snapshot.choices + tuple(self.taken)
        return Snapshot(self.stage, self.actors, self.step, self.turn, self.left, choices)

    def leave(self) -> None:
        """Let go of all that this path alone held."""
        if not self.handed_on:
            for actor in self.actors:
                actor.end_tick()
            dismantle(self.stage)

    def _crash_here(self, actor: Actor, chosen: int) -> None:
        """What would be left if the runner died now can be copied at once, without going this way again."""
        number = self.actors.index(actor)
        turn, left, disturbances = self.turn, self.left, self.stage.world.disturbances
        self.actors[number] = _successor(actor)
        self.turn = turn + self.in_turn
        self._pay("crash before")
        self.search.met.add((self.verb, "crash before"))
        try:
            self._note(self._digest("between"))
            self.stage.world.disturbances += 1
            stage = copy_stage(self.stage)
            stage.checker.acts.clear()
            choices = (*self.snapshot.choices, *self.taken, chosen)
            actors = [one.fork() for one in self.actors]
            snapshot = Snapshot(stage, actors, self.step, self.turn, self.left, choices)
            self.search.push(self.step, Entry(snapshot))
        except Pruned:
            pass
        self.actors[number] = actor
        self.turn, self.left, self.stage.world.disturbances = turn, left, disturbances

    # -- what goes wrong -----------------------------------------------------------------------------

    def _turn_options(self, actor: Actor) -> list[str]:
        options = ["go"]
        if not self.calm:
            if self.left[1] and not actor.waits:
                options.append("skip")
            if self.left[2] and actor.waits:
                options.append("wake")
            elif self.left[2]:
                options += [f"{kind} {subject}" for kind, subject in self.search.scene.events(self.stage)]
        return options

    def _options(self, actor: Actor, verb: str) -> list[str]:
        options = ["go"]
        if self.calm:
            return options
        if self.left[0]:
            read = READ_FAULTS.get(verb)
            if read is None:
                options += FAULTS if verb in LAST_CALLS else FAULTS_BEFORE_ANOTHER
            else:
                options += [one for one in read if self._can_be(one, actor, verb)]
        if self.left[1]:
            options.append("freeze")
            if verb != "cluster.evict":
                # An eviction carries no token: how late it may land is bounded by its client's timeout.
                options.append("freeze long")
            if any(other.frozen for other in self.actors):
                options.append("switch")
        return options

    def _can_be(self, fault: str, actor: Actor, verb: str) -> bool:
        """Whether this fault of a read would show anything else than a sound one."""
        if fault == "shown stale":
            return verb in actor.last
        nodes = self.stage.world.inventory.nodes.values()
        return fault != "shown holed" or any(node.owner is not None for node in nodes)

    def point(self, actor: Actor, verb: str) -> str:
        self.verb = verb
        while True:
            choice = self._choose(self._options(actor, verb), f"{actor.owner} {verb}", actor)
            if choice not in DELAYS:
                return choice
            self._freeze(actor, choice)

    def _freeze(self, actor: Actor, how: str) -> None:
        now = self.stage.clock.now()
        actor.wakes_at = now + LONG_STEPS * STEP if how == "freeze long" else now
        actor.wakes_after = self.runs + 1
        if how == "switch":
            for other in self.actors:
                if other.frozen and other is not actor:
                    other.wakes_at, other.wakes_after = now, self.runs
        self.stage.world.disturbances += 1
        assert actor.thread is not None
        assert actor.thread.parent is not None
        actor.thread.parent.switch()
        self.stage.world.disturbances += 1  # the others may have done the same meanwhile
        # From here on it depends on what the others have made of the world meanwhile.
        actor.chain = hash((actor.chain, self.state.begins()))

    def _choose(self, options: list[str], where: str, actor: Actor | None = None) -> str:
        number = len(self.taken)
        known = self.entry.choices
        if number < len(known):
            chosen = known[number]
        else:
            chosen = 0
            if not self.replays:
                self._note(self._digest(where.partition(" ")[2], actor))
                self._branch(options, actor)
        self.taken.append(chosen)
        choice = options[chosen]
        if chosen:
            self._pay(choice)
            self.search.met.add(
                (where.partition(" ")[2], choice.partition(" ")[0] if actor is None else choice)
            )
        self.trail.append(where if choice == "go" else f"{where}: {choice}")
        return choice

    def _branch(self, options: list[str], actor: Actor | None) -> None:
        taken = tuple(self.taken)
        alone = actor is not None and not any(other.frozen for other in self.actors)
        for chosen in range(1, len(options)):
            if actor is not None and alone and options[chosen] == "crash before":
                self._crash_here(actor, chosen)
            else:
                self.search.push(self.step, Entry(self.snapshot, (*taken, chosen), self.moves))

    def _pay(self, choice: str) -> None:
        faults, delays, events, total = self.left
        if choice in DELAYS:
            self.left = (faults, delays - 1, events, total - 1)
        elif choice in FAULTS or choice.startswith(("unread", "shown")):
            self.left = (faults - 1, delays, events, total - 1)
        else:
            self.left = (faults, delays, events - 1, total - 1)

    # -- which state that is -------------------------------------------------------------------------

    def _digest(self, where: str, current: Actor | None = None) -> int:
        return self.state.of(self.actors, self.runs, (self.turn, where), current)

    def _note(self, digest: int) -> None:
        left = NOTHING if self.calm else self.left
        seen = self.search.seen
        covered = seen.get(digest, 0)
        if covered >> _bit(left) & 1:
            raise Pruned
        if not covered:
            self.search.states += 1
        if left not in _closures:
            _closures[left] = _closure(left)
        seen[digest] = covered | _closures[left]

    def answered(self, actor: Actor, verb: str, answer: str) -> None:
        actor.chain = hash((actor.chain, verb, answer))
        if answer not in ("done", "seen"):
            self.meets(verb, answer)

    def meets(self, what: str, how: str) -> None:
        self.search.met.add((what, how))
