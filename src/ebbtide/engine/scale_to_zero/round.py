"""The idle loop: one round over all policies, under the lease `policies`.

Read policies, states and signals, each at once; ask the cluster only about those whose next step depends on
it; let the machine of each say what follows; write what changed, many at once where nothing else hangs on it;
then run the machines that have something to do, wakes before anything that goes to zero. Whatever does not
fit into the time is left to the next round, and what a dead runner left half done is found in the states.

To zero: the workloads are read, FALLING is written, each is scaled with the version that was seen before
that write, and ZERO is written. Each write is conditional on `rev`. So a wake at any moment wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from ebbtide.collector import collector_paused
from ebbtide.core.scale_to_zero import machine, rules
from ebbtide.core.scale_to_zero.activity import ActivityLook, needs_workloads, not_watched
from ebbtide.core.scale_to_zero.machine import AWAKE, Observed, StepResult, check_invariants
from ebbtide.core.scale_to_zero.node_first import settings_for
from ebbtide.engine.leased import Leased, released
from ebbtide.engine.rounds import InvariantBroken, advance_work, refuse_if_broken
from ebbtide.engine.scale_to_zero.context import PolicyContext
from ebbtide.engine.scale_to_zero.declaring import Declaring
from ebbtide.engine.scale_to_zero.gating import Gating
from ebbtide.engine.scale_to_zero.look import Looking, PolicyScene
from ebbtide.engine.scale_to_zero.policy_machine import PolicyMachine
from ebbtide.engine.scale_to_zero.waking import Waking
from ebbtide.errors import EbbtideError, LeaseLost
from ebbtide.model.effect import OutcomeKind
from ebbtide.model.idle import IdleState, Phase, RuleTimer
from ebbtide.model.policy import Policy, Rule
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Reading

TURNS = {StepResult.WOKE: 0, StepResult.SCALED: 1, StepResult.NOTED: 2, StepResult.FELL: 3}
SENTENCES = 20
"""How many a report repeats; all of them are in the log."""
FALL_TRIES = 3


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


@dataclass(frozen=True, slots=True)
class StepDone:
    """The result of one policy's step."""

    policy: Policy
    result: StepResult
    says: str = ""
    bug: Exception | None = None


@dataclass(slots=True)
class _Subject:
    """One policy in one round."""

    policy: Policy
    state: IdleState
    due: rules.Due | None = None
    timers: tuple[RuleTimer, ...] = ()
    rule: Rule | None = None


class IdleRounds:
    def __init__(self, context: PolicyContext, waking: Waking, gating: Gating) -> None:
        self._context = context
        self._ports = context.ports
        self._gating = gating
        self._waking = waking
        self._declaring = Declaring(context, waking)
        self._looking = Looking(context, gating)
        self._fires: dict[tuple[str, str], tuple[int | None, int | None]] = {}
        self._of_pools: list[Policy] | None = None
        """Policies whose target is a pool, as the last round saw them."""

    def run(self, owner: str, deadline: float) -> RoundReport:
        try:
            leased = self._context.leased(owner, deadline)
        except LeaseLost as held:
            return RoundReport(self._context.now, f"policies: stood by: {held}", held=False)
        with released(leased), collector_paused():
            return self._round(leased)

    def _round(self, leased: Leased) -> RoundReport:
        said = self._declaring.apply(leased)
        report = self._over_all(leased)
        return with_sentences(report, [*said, *self._declaring.report(leased)])

    def _over_all(self, leased: Leased) -> RoundReport:
        # States first: a change of target raises the rev of its state, so what is done for the old target by
        # a round that read before is refused.
        states = {state.policy_id: state for state in self._ports.policies.list_states()}
        self._context.note_wakes(states.values())
        policies = list(self._context.all_policies())
        self._of_pools = [policy for policy in policies if policy.target.pool]
        if not policies:
            return RoundReport(self._context.now, "; ".join(["no policies", *self._reconcile()]))
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
        done, left = self._run_all(self._plan(subjects, scene, leased))
        report = _report(self._context.now, len(policies), _unknown(policies, scene.readings), done, left)
        said = self._reconcile()
        for bug in (one.bug for one in done if one.bug is not None):
            raise bug
        return with_sentences(report, said)

    def _reconcile(self) -> list[str]:
        """Services that a dead runner left with gates, or without."""
        try:
            return self._gating.reconcile()
        except EbbtideError as error:
            return [f"Services were left as they are: {error}"]

    def settings_now(self, settings: Settings) -> Settings:
        if self._of_pools is None:
            self._of_pools = [policy for policy in self._context.all_policies() if policy.target.pool]
        states = {state.policy_id: state for state in self._ports.policies.list_states()}
        at_work = {policy.id: policy for policy in self._of_pools}
        for state in states.values():
            if state.phase is Phase.WAKING and (found := self._ports.policies.find_policy(state.policy_id)):
                at_work[found.id] = found
        known = [(each, states[each.id]) for each in at_work.values() if each.id in states]
        return settings_for(settings, known)

    def _subject(self, policy: Policy, state: IdleState, scene: PolicyScene) -> _Subject:
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

    def _asks(self, subject: _Subject, scene: PolicyScene) -> bool:
        if subject.due is not None or subject.rule is not None:
            return True
        blank = ActivityLook(scene.readings)
        return needs_workloads(subject.policy, subject.state, blank, self._context.defaults, scene.now)

    def _plan(self, subjects: Sequence[_Subject], scene: PolicyScene, leased: Leased) -> list[PolicyMachine]:
        """The machines that have more to do than to write a state, in their order; the rest is written."""
        quiet: list[IdleState] = []
        found: list[tuple[int, PolicyMachine]] = []
        again = partial(self._observe_again, scene)
        for subject in subjects:
            state, observed = subject.state, self._observed(subject, scene)
            step = machine.advance(state, observed, scene.now)
            if step.effects or step.stretches or step.why:
                run = PolicyMachine(self._context, self._gating, state, observed, again, leased=leased)
                run.most_rounds = FALL_TRIES
                found.append((TURNS[step.result], run))
            elif step.state is not state and step.state != state:
                refuse_if_broken(check_invariants(state, step.state))
                quiet.append(step.state)
        if quiet:
            self._ports.policies.write_states(quiet)
        return [run for _, run in sorted(found, key=lambda each: each[0])]

    def _observed(self, subject: _Subject, scene: PolicyScene) -> Observed:
        policy, state = subject.policy, subject.state
        look = self._looking.look_at(policy, state, scene)
        waked = state.phase is Phase.WAKING and all(each.ready for each in look.workloads if each.replicas)
        node_seconds = self._waking.node_seconds(state) if waked and state.last_scaled_at else 0.0
        nodes = scene.nodes if state.phase is Phase.ZERO else None
        return Observed(
            policy,
            look,
            self._context.defaults,
            subject.due,
            subject.timers,
            subject.rule,
            node_seconds,
            nodes.node_first(policy, state, look.workloads) if nodes is not None else None,
        )

    def _observe_again(self, scene: PolicyScene, policy: Policy, state: IdleState) -> Observed:
        self._looking.read_workloads(policy.target.workloads, scene)
        return self._observed(self._subject(policy, state, scene), scene)

    def _run_all(self, runs: Sequence[PolicyMachine]) -> tuple[Sequence[StepDone], int]:
        """What was done, and how many had no time."""
        threads = min(self._ports.threads, len(runs))
        if threads <= 1:
            results = [self._run_one(run) for run in runs]
        else:
            with ThreadPoolExecutor(threads) as pool:
                results = list(pool.map(self._run_one, runs))
        done = [result for result in results if result is not None]
        return done, len(results) - len(done)

    def _run_one(self, run: PolicyMachine) -> StepDone | None:
        """None if there was no time for it. A bug is reported after all other policies were handled."""
        try:
            rested = advance_work(run)
        except Exception as error:
            expected = isinstance(error, EbbtideError) and not isinstance(error, InvariantBroken)
            says = f"left to the next round: {error}"
            return StepDone(run.policy, StepResult.NOTED, says, None if expected else error)
        if run.step is None:
            return None
        if run.result is StepResult.WOKE and run.state.phase is Phase.WAKING:
            self._waking.follow(run.policy, run.state)
        return _done(run, rested)


def _done(run: PolicyMachine, rested: bool) -> StepDone:
    policy, told, why = run.policy, run.told, "; ".join(run.problems)
    if not rested:
        says = f"{policy.target} was changed by others {FALL_TRIES} times: the next round looks again"
        return StepDone(policy, StepResult.NOTED, says)
    fell = run.state.phase is Phase.ZERO
    done = fell if run.result is StepResult.FELL else all(o.kind is OutcomeKind.DONE for o in run.outcomes)
    if done or run.result is StepResult.WOKE:
        return StepDone(policy, run.result, told)
    left = "left alone" if run.result is StepResult.SCALED else "left to the next round"
    return StepDone(
        policy, StepResult.NOTED, "; ".join(filter(None, (told, f"{left}: {why}" if why else left)))
    )


def _unknown(policies: Sequence[Policy], readings: Mapping[str, Reading]) -> int:
    """Of how many policies that may sleep a signal is not known."""
    missing = {query for query, reading in readings.items() if reading.value is None}
    if not missing:
        return 0
    watched = (policy for policy in policies if not not_watched(policy))
    return sum(1 for policy in watched if any(signal.query in missing for signal in policy.signals))


def with_sentences(report: RoundReport, said: Sequence[str]) -> RoundReport:
    """The report with these sentences, too."""
    if not said:
        return report
    says = "; ".join([report.says, *said[:SENTENCES]])
    return replace(report, says=says, sentences=(*report.sentences, *said))


def _report(now: int, policies: int, unknown: int, done: Sequence[StepDone], left: int) -> RoundReport:
    count = {result: sum(1 for one in done if one.result is result) for result in StepResult}
    sentences = tuple(f"{one.policy.name}: {one.says}" for one in done if one.says)
    parts = [f"{policies} policies"]
    parts += [
        f"{number} {result}" for result, number in count.items() if number and result is not StepResult.NOTED
    ]
    parts += [f"{unknown} with unknown signals"] if unknown else []
    parts += [f"{left} steps left to the next round"] if left else []
    return RoundReport(
        now,
        "; ".join([", ".join(parts), *sentences[:SENTENCES]]),
        policies=policies,
        fell=count[StepResult.FELL],
        woke=count[StepResult.WOKE],
        scaled=count[StepResult.SCALED],
        unknown=unknown,
        left=left,
        sentences=sentences,
    )
