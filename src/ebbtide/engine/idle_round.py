"""The idle loop: one round over all policies, under the lease `policies`.

Read policies, states and signals, each at once; ask the cluster only about those whose next step depends on
it; let the core say what follows; write what changed, many at once where nothing else hangs on it; then
carry out wakes, before anything that goes to zero. Whatever does not fit into the time is left to the next
round, and what a dead runner left half done is found in the states and gone on with.

To zero: the workloads are read, FALLING is written, each is scaled with the version that was seen before
that write, and ZERO is written. Each write is conditional on `rev`. So a wake at any moment wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain

from ebbtide.core import idle, rules
from ebbtide.core.floor import settings_for
from ebbtide.core.idle import IdleStep, Wanted
from ebbtide.core.listening import Look, Verdict, listen, needs_workloads
from ebbtide.core.rates import Rates, empty_room_price, rate_of, realised_share, with_realised
from ebbtide.engine.scaling_desk import Desk
from ebbtide.engine.scaling_steps import AWAKE, Done, Kind, Steps
from ebbtide.engine.waking import Waking
from ebbtide.errors import EbbtideError, LeaseLost, NotFound
from ebbtide.model.idle import IdleState, Phase, Rate, RuleTimer
from ebbtide.model.policy import Policy, Rule
from ebbtide.model.record import Lease
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Reading
from ebbtide.model.workload import Workload, WorkloadRef

LEASE = "policies"
PAGE = 1000
ORDER = {Wanted.WAKE: 0, Wanted.READY: 1, Wanted.NOTHING: 2, Wanted.FINISH: 3, Wanted.FALL: 3}
SENTENCES = 20
"""How many a report repeats; all of them are in the log."""

Seen = Workload | EbbtideError
"""A workload, or why it could not be read."""
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
class _Scene:
    """What one round sees."""

    now: int
    readings: Mapping[str, Reading]
    rates: Rates
    shares: Mapping[str, Decimal]
    held: str
    gap_seconds: int
    seen: dict[WorkloadRef, Seen] = field(default_factory=dict)


@dataclass(slots=True)
class _Subject:
    """One policy in one round."""

    policy: Policy
    state: IdleState
    due: rules.Due | None = None
    timers: tuple[RuleTimer, ...] = ()
    rule: Rule | None = None


class IdleRounds:
    def __init__(self, desk: Desk, waking: Waking) -> None:
        self._desk = desk
        self._outside = desk.outside
        self._waking = waking
        self._steps = Steps(desk, waking)
        self._fires: dict[tuple[str, str], tuple[int | None, int | None]] = {}
        self._of_pools: list[Policy] | None = None
        """Policies whose target is a pool, as the last round saw them."""

    def run(self, owner: str, deadline: float) -> RoundReport:
        ttl = self._desk.settings.lock_ttl_seconds
        try:
            lease = self._outside.store.acquire(LEASE, owner, ttl)
        except LeaseLost as held:
            return RoundReport(self._desk.now, f"policies: stood by: {held}", held=False)
        try:
            return self._round(lease, deadline)
        finally:
            with suppress(EbbtideError):
                self._outside.store.release(lease)

    def _round(self, lease: Lease, deadline: float) -> RoundReport:
        policies = list(self._all_policies())
        self._of_pools = [policy for policy in policies if policy.target.pool]
        if not policies:
            return RoundReport(self._desk.now, "no policies")
        states = {state.policy_id: state for state in self._outside.policies.list_states()}
        scene = self._look(policies, states.values())
        subjects = [
            self._subject(policy, states[policy.id], scene) for policy in policies if policy.id in states
        ]
        refs = [
            ref
            for subject in subjects
            if self._asks(subject, scene)
            for ref in subject.policy.target.workloads
        ]
        self._read_workloads(refs, scene)
        quiet: list[IdleState] = []
        acts: list[Act] = []
        unknown = 0
        for subject in subjects:
            unknown += self._plan(subject, scene, quiet, acts)
        if quiet:
            self._outside.policies.write_states(quiet)
        acts.sort(key=lambda act: act[0])
        done, left = self._carry_out(acts, lease, deadline)
        return _report(self._desk.now, len(policies), unknown, done, left)

    def settings_now(self, settings: Settings) -> Settings:
        if self._of_pools is None:
            self._of_pools = [policy for policy in self._all_policies() if policy.target.pool]
        states = {state.policy_id: state for state in self._outside.policies.list_states()}
        of_pools = [(policy, states[policy.id]) for policy in self._of_pools if policy.id in states]
        waking = any(state.phase is Phase.WAKING for state in states.values())
        return settings_for(settings, of_pools, waking)

    def _all_policies(self) -> Iterator[Policy]:
        after = ""
        while page := self._outside.policies.list_policies(after, PAGE):
            yield from page
            after = page[-1].name
            if len(page) < PAGE:
                return

    def _look(self, policies: Sequence[Policy], states: Iterable[IdleState]) -> _Scene:
        asked = [policy for policy in policies if policy.enabled]
        of_signals = (signal.query for policy in asked if policy.scale_to_zero for signal in policy.signals)
        of_rules = (rule.metric for policy in asked for rule in policy.rules)
        queries = sorted({query for query in chain(of_signals, of_rules) if query})
        found = self._outside.signals.read_values(queries) if queries else ()
        record = self._outside.store.load()
        now, settings = self._desk.now, self._desk.settings
        limit = settings.metric_max_age_seconds
        view = self._view()
        rates = Rates(settings.pools, view)
        sleeping = (state for state in states if state.phase is Phase.ZERO)
        room = empty_room_price(view, settings.pools) if view is not None else None
        return _Scene(
            now,
            {query: _fresh(reading, now, limit) for query, reading in zip(queries, found, strict=True)},
            rates,
            realised_share(sleeping, room) if room is not None else {},
            f"removals are paused ({record.pause_reason})" if record.paused else "",
            max(settings.max_tick_gap_seconds, 3 * self._desk.defaults.check_interval_seconds),
        )

    def _view(self) -> ClusterView | None:
        if self._outside.cluster is None:
            return None
        with suppress(EbbtideError):
            self._waking.view = self._outside.cluster.read()
            return self._waking.view
        return None

    def _subject(self, policy: Policy, state: IdleState, scene: _Scene) -> _Subject:
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

    def _asks(self, subject: _Subject, scene: _Scene) -> bool:
        if subject.due is not None or subject.rule is not None:
            return True
        blank = Look(scene.readings)
        return needs_workloads(subject.policy, subject.state, blank, self._desk.defaults, scene.now)

    def _read_workloads(self, refs: Sequence[WorkloadRef], scene: _Scene) -> None:
        wanted = list(dict.fromkeys(refs))
        threads = min(self._outside.threads, len(wanted))
        if threads <= 1:
            scene.seen.update((ref, self._read(ref)) for ref in wanted)
            return
        with ThreadPoolExecutor(threads) as pool:
            parts = [wanted[number::threads] for number in range(threads)]
            for part, seen in zip(
                parts, pool.map(lambda refs: [self._read(ref) for ref in refs], parts), strict=True
            ):
                scene.seen.update(zip(part, seen, strict=True))

    def _read(self, ref: WorkloadRef) -> Seen:
        try:
            return self._outside.workloads.read(ref)
        except EbbtideError as error:
            return error

    def _look_at(self, policy: Policy, state: IdleState, scene: _Scene) -> Look:
        there: list[Workload] = []
        missing: list[WorkloadRef] = []
        problem = ""
        for ref in policy.target.workloads:
            match scene.seen.get(ref):
                case Workload() as workload:
                    there.append(workload)
                case NotFound():
                    missing.append(ref)
                case EbbtideError() as error:
                    problem = f"{ref} could not be read: {error}"
                case _:
                    problem = f"{ref} was not read"
        rate = self._rate(policy, state, there, scene)
        return Look(
            scene.readings, tuple(there), tuple(missing), problem, rate, scene.held, scene.gap_seconds
        )

    def _rate(
        self, policy: Policy, state: IdleState, there: Sequence[Workload], scene: _Scene
    ) -> Rate | None:
        if not self._desk.defaults.cost_tracking:
            return None
        if state.phase in (*AWAKE, Phase.FALLING):
            return rate_of(policy, there, scene.rates)
        own = rate_of(policy, (), Rates(())) if policy.hourly_cost is not None else state.rate
        if state.phase is not Phase.ZERO or scene.rates.view is None:
            return own
        return with_realised(own, scene.shares)

    def _plan(self, subject: _Subject, scene: _Scene, quiet: list[IdleState], acts: list[Act]) -> int:
        """Sort into what is only written and what is done; 1 where the signals were not all known."""
        policy, state = subject.policy, subject.state
        look = self._look_at(policy, state, scene)

        def look_again(policy: Policy, state: IdleState) -> Look:
            self._read_workloads(policy.target.workloads, scene)
            return self._look_at(policy, state, scene)

        if subject.due is not None:
            due = subject.due
            turn = 0 if due.replicas else 3
            acts.append((turn, policy, lambda: self._steps.answer(policy, state, due, look, look_again)))
            return 0
        step = idle.evaluate(policy, state, look, self._desk.defaults, scene.now)
        if step.wanted is Wanted.NOTHING and subject.rule is not None:
            scale = rules.scale_for(policy, step.state, subject.rule, look.workloads, look.rate, scene.now)
            if scale.replicas:
                acts.append((1, policy, lambda: self._steps.scale(policy, step.state, scale, look.workloads)))
                return 0
        step = _with_timers(step, subject, scene)
        if step.wanted is not Wanted.NOTHING or step.stretches or step.says:
            acts.append(
                (ORDER[step.wanted], policy, lambda: self._steps.carry_out(policy, step, look, look_again))
            )
        elif step.state != state:
            quiet.append(step.state)
        watched = policy.enabled and policy.scale_to_zero and state.phase in AWAKE
        verdict = listen(policy, state, look, self._desk.defaults, scene.now)[0] if watched else None
        return int(verdict is Verdict.UNKNOWN)

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

        threads = min(self._outside.threads, len(acts))
        if threads <= 1:
            results = [one(act) for act in acts]
        else:
            with ThreadPoolExecutor(threads) as pool:
                results = list(pool.map(one, acts))
        done = [result for result in results if result is not None]
        return done, len(results) - len(done)

    def _has_time(self, held: list[Lease], deadline: float) -> bool:
        """Renews a lease that is half over; without it, and past the deadline, nothing more is begun."""
        settings, now = self._desk.settings, self._outside.clock.now()
        if now >= deadline:
            return False
        if held[0].until - now < settings.lock_ttl_seconds / 2:
            with suppress(EbbtideError):
                held[0] = self._outside.store.renew(held[0], settings.lock_ttl_seconds)
        return now < held[0].until - settings.lease_margin_seconds


def _fresh(reading: Reading, now: int, limit: int) -> Reading:
    age = now - reading.at
    if reading.value is None or age <= limit:
        return reading
    return Reading(None, reading.at, f"the last sample is {age} s old, more than {limit}")


def _with_timers(step: IdleStep, subject: _Subject, scene: _Scene) -> IdleStep:
    """Rules that began or ceased to hold; a clock that runs is looked at often enough to be believed."""
    if step.wanted is not Wanted.NOTHING or not (subject.policy.rules and step.state.phase in AWAKE):
        return step
    old = 2 * (scene.now - step.state.checked_at) >= scene.gap_seconds
    if subject.timers == step.state.timers and not (subject.timers and old):
        return step
    return replace(step, state=replace(step.state, timers=subject.timers, checked_at=scene.now))


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
