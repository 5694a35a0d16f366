"""The idle loop: one round over all policies, under the lease `policies`.

Read policies, states and signals, each at once; ask the cluster only about those whose next step depends on
it; let the core say what follows; write what changed, many at once where nothing else hangs on it; then
carry out wakes, before anything that goes to zero. Whatever does not fit into the time is left to the next
round, and what a dead runner left half done is found in the states and gone on with.

To zero: the workloads are read, FALLING is written, each is scaled with the version that was seen before
that write, and ZERO is written. Each write is conditional on `rev`. So a wake at any moment wins.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from ebbtide.core.scale_to_zero import idle, rules
from ebbtide.core.scale_to_zero.activity import Look, needs_workloads, not_watched
from ebbtide.core.scale_to_zero.idle import IdleStep, Wanted
from ebbtide.core.scale_to_zero.policy_overrides import settings_for
from ebbtide.engine.scale_to_zero.context import LEASE, PolicyContext
from ebbtide.engine.scale_to_zero.gating import Gating
from ebbtide.engine.scale_to_zero.look import Looking, Scene
from ebbtide.engine.scale_to_zero.steps import AWAKE, Done, Kind, Steps, must_wait
from ebbtide.engine.scale_to_zero.waking import Waking
from ebbtide.errors import EbbtideError, LeaseLost
from ebbtide.model.idle import IdleState, Phase, RuleTimer
from ebbtide.model.policy import Policy, Rule
from ebbtide.model.record import Lease
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Reading

PAGE = 1000
ORDER = {Wanted.WAKE: 0, Wanted.READY: 1, Wanted.NOTHING: 2, Wanted.FINISH: 3, Wanted.FALL: 3}
SENTENCES = 20
"""How many a report repeats; all of them are in the log."""

Act = tuple[int, Policy, Callable[[], Done | None]]
"""When its turn is, whose it is, and what is done."""


@dataclass(frozen=True, slots=True)
class RoundReport:
    at: int
    says: str
    held: bool = True
    """Whether this runner had the lease."""
    policies: int = 0
    fell: int = 0
    woke: int = 0
    scaled: int = 0
    unknown: int = 0
    """Policies whose signals were not all known."""
    left: int = 0
    """Steps that did not fit into the time."""
    sentences: tuple[str, ...] = ()


@dataclass(slots=True)
class _Subject:
    """One policy in one round."""

    policy: Policy
    state: IdleState
    due: rules.Due | None = None
    timers: tuple[RuleTimer, ...] = ()
    rule: Rule | None = None


class IdleRounds:
    def __init__(self, desk: PolicyContext, waking: Waking, gating: Gating) -> None:
        self._desk = desk
        self._ports = desk.ports
        self._gating = gating
        self._looking = Looking(desk, gating)
        self._steps = Steps(desk, waking, gating)
        self._fires: dict[tuple[str, str], tuple[int | None, int | None]] = {}
        self._of_pools: list[Policy] | None = None
        """Policies whose target is a pool, as the last round saw them."""

    def run(self, owner: str, deadline: float) -> RoundReport:
        ttl = self._desk.settings.lock_ttl_seconds
        try:
            lease = self._ports.store.acquire(LEASE, owner, ttl)
        except LeaseLost as held:
            return RoundReport(self._desk.now, f"policies: stood by: {held}", held=False)
        try:
            with _collector_paused():
                return self._round(lease, deadline)
        finally:
            with suppress(EbbtideError):
                self._ports.store.release(lease)

    def _round(self, lease: Lease, deadline: float) -> RoundReport:
        # States first: a change of target raises the rev of its state, so what is done for the old target by
        # a round that read before is refused.
        states = {state.policy_id: state for state in self._ports.policies.list_states()}
        self._desk.note_wakes(states.values())
        policies = list(self._all_policies())
        self._of_pools = [policy for policy in policies if policy.target.pool]
        if not policies:
            return RoundReport(self._desk.now, "; ".join(["no policies", *self._reconcile()]))
        scene = self._looking.look(policies, states.values())
        subjects = [
            self._subject(policy, states[policy.id], scene) for policy in policies if policy.id in states
        ]
        refs = [
            ref
            for subject in subjects
            if self._asks(subject, scene)
            for ref in subject.policy.target.workloads
        ]
        self._looking.read_workloads(refs, scene)
        quiet: list[IdleState] = []
        acts: list[Act] = []
        for subject in subjects:
            self._plan(subject, scene, quiet, acts)
        if quiet:
            self._ports.policies.write_states(quiet)
        acts.sort(key=lambda act: act[0])
        done, left = self._carry_out(acts, lease, deadline)
        report = _report(self._desk.now, len(policies), _unknown(policies, scene.readings), done, left)
        said = self._reconcile()
        return replace(report, says="; ".join([report.says, *said]), sentences=(*report.sentences, *said))

    def _reconcile(self) -> list[str]:
        """Services that a dead runner left with gates, or without."""
        try:
            return self._gating.reconcile()
        except EbbtideError as error:
            return [f"Services were left as they are: {error}"]

    def settings_now(self, settings: Settings) -> Settings:
        if self._of_pools is None:
            self._of_pools = [policy for policy in self._all_policies() if policy.target.pool]
        states = {state.policy_id: state for state in self._ports.policies.list_states()}
        at_work = {policy.id: policy for policy in self._of_pools}
        for state in states.values():
            if state.phase is Phase.WAKING and (found := self._ports.policies.find_policy(state.policy_id)):
                at_work[found.id] = found
        known = [(each, states[each.id]) for each in at_work.values() if each.id in states]
        return settings_for(settings, known)

    def _all_policies(self) -> Iterator[Policy]:
        after = ""
        while page := self._ports.policies.list_policies(after, PAGE):
            yield from page
            after = page[-1].name
            if len(page) < PAGE:
                return

    def _subject(self, policy: Policy, state: IdleState, scene: Scene) -> _Subject:
        subject = _Subject(policy, state)
        if not policy.enabled or state.paused:
            return subject
        if policy.schedules:
            subject.due = rules.due(policy, state, scene.now, self._around)
        if policy.rules and state.phase in AWAKE:
            subject.timers = rules.follow(policy, state, scene.readings, scene.now, scene.gap_seconds)
            subject.rule = rules.fired(policy, subject.timers, scene.now)
        return subject

    def _around(self, cron: str, zone: str, now: int) -> tuple[int | None, int | None]:
        known = self._fires.get((cron, zone))
        if known is None or (known[1] is not None and now >= known[1]) or (known[0] or 0) > now:
            known = self._fires[(cron, zone)] = rules.fires_around(cron, zone, now)
        return known

    def _asks(self, subject: _Subject, scene: Scene) -> bool:
        if subject.due is not None or subject.rule is not None:
            return True
        blank = Look(scene.readings)
        return needs_workloads(subject.policy, subject.state, blank, self._desk.defaults, scene.now)

    def _plan(self, subject: _Subject, scene: Scene, quiet: list[IdleState], acts: list[Act]) -> None:
        """Sort into what is only written and what is done."""
        policy, state = subject.policy, subject.state
        look = self._looking.look_at(policy, state, scene)
        if subject.due is not None and not must_wait(state, subject.due, look, scene.now):
            again = partial(self._look_again, scene)
            answer = partial(self._steps.answer, policy, state, subject.due, look, again)
            acts.append((3 if subject.due.schedule.sleeps else 0, policy, answer))
            return
        step = idle.evaluate(policy, state, look, self._desk.defaults, scene.now)
        if subject.rule is not None and step.wanted is Wanted.NOTHING:
            scale = rules.scale_for(policy, step.state, subject.rule, look.workloads, look.rate, scene.now)
            if scale.replicas:
                acts.append((1, policy, partial(self._steps.scale, policy, step, scale, look.workloads)))
                return
            step = _held_back(step, scale.says)
        elif state.rule_held:
            step = replace(step, state=replace(step.state, rule_held=""))
        if policy.rules:
            step = _with_timers(step, subject, scene)
        step = _with_node_first(policy, step, look, scene)
        if step.wanted is not Wanted.NOTHING or step.stretches or step.says:
            again = partial(self._look_again, scene)
            acts.append(
                (ORDER[step.wanted], policy, partial(self._steps.carry_out, policy, step, look, again))
            )
        elif step.state is not state and step.state != state:
            quiet.append(step.state)

    def _look_again(self, scene: Scene, policy: Policy, state: IdleState) -> Look:
        self._looking.read_workloads(policy.target.workloads, scene)
        return self._looking.look_at(policy, state, scene)

    def _carry_out(
        self, acts: Sequence[Act], lease: Lease, deadline: float
    ) -> tuple[Sequence[tuple[Policy, Done]], int]:
        held = [lease]

        def one(act: Act) -> tuple[Policy, Done] | None:
            """None where there was no time."""
            _, policy, call = act
            if not self._has_time(held, deadline):
                return None
            try:
                return policy, call() or Done(Kind.NOTED)
            except EbbtideError as error:
                return policy, Done(Kind.NOTED, f"left to the next round: {error}")

        threads = min(self._ports.threads, len(acts))
        if threads <= 1:
            results = [one(act) for act in acts]
        else:
            with ThreadPoolExecutor(threads) as pool:
                results = list(pool.map(one, acts))
        done = [result for result in results if result is not None]
        return done, len(results) - len(done)

    def _has_time(self, held: list[Lease], deadline: float) -> bool:
        """Renews a lease that is half over; without it, and past the deadline, nothing more is begun."""
        settings, now = self._desk.settings, self._ports.clock.now()
        if now >= deadline:
            return False
        if held[0].until - now < settings.lock_ttl_seconds / 2:
            with suppress(EbbtideError):
                held[0] = self._ports.store.renew(held[0], settings.lock_ttl_seconds)
        return now < held[0].until - settings.lease_margin_seconds


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Thousands of values that live for one round make the collector look at all others again and again."""
    was_running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_running:
            gc.enable()


def _unknown(policies: Sequence[Policy], readings: Mapping[str, Reading]) -> int:
    """Of how many policies that may sleep a signal is not known."""
    missing = {query for query, reading in readings.items() if reading.value is None}
    if not missing:
        return 0
    watched = (policy for policy in policies if not not_watched(policy))
    return sum(1 for policy in watched if any(signal.query in missing for signal in policy.signals))


def _held_back(step: IdleStep, why: str) -> IdleStep:
    """A rule that fired and moved nothing: said once, and again when the reason changes."""
    if why == step.state.rule_held:
        return step
    return replace(
        step, state=replace(step.state, rule_held=why), says="; ".join(filter(None, (step.says, why)))
    )


def _with_timers(step: IdleStep, subject: _Subject, scene: Scene) -> IdleStep:
    """Rules that began or ceased to hold; a clock that runs is looked at often enough to be believed."""
    if step.wanted is not Wanted.NOTHING or not (subject.policy.rules and step.state.phase in AWAKE):
        return step
    old = 2 * (scene.now - step.state.checked_at) >= scene.gap_seconds
    if subject.timers == step.state.timers and not (subject.timers and old):
        return step
    return replace(step, state=replace(step.state, timers=subject.timers, checked_at=scene.now))


def _with_node_first(policy: Policy, step: IdleStep, look: Look, scene: Scene) -> IdleStep:
    """Whether its wake will need a node: noted while it sleeps, since a gate sees no nodes."""
    if step.wanted is not Wanted.NOTHING or step.state.phase is not Phase.ZERO or scene.nodes is None:
        return step
    first = scene.nodes.node_first(policy, step.state, look.workloads)
    return replace(step, state=replace(step.state, node_first=first)) if first else step


def _report(
    now: int, policies: int, unknown: int, done: Sequence[tuple[Policy, Done]], left: int
) -> RoundReport:
    count = {kind: sum(1 for _, one in done if one.kind is kind) for kind in Kind}
    sentences = tuple(f"{policy.name}: {one.says}" for policy, one in done if one.says)
    parts = [f"{policies} policies"]
    parts += [f"{number} {kind}" for kind, number in count.items() if number and kind is not Kind.NOTED]
    parts += [f"{unknown} with unknown signals"] if unknown else []
    parts += [f"{left} steps left to the next round"] if left else []
    return RoundReport(
        now,
        "; ".join([", ".join(parts), *sentences[:SENTENCES]]),
        policies=policies,
        fell=count[Kind.FELL],
        woke=count[Kind.WOKE],
        scaled=count[Kind.SCALED],
        unknown=unknown,
        left=left,
        sentences=sentences,
    )
