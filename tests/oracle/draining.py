"""Drains compared: the real machines, from the first mark on a node to its end, in a cluster that changes
meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ebbtide.core.operations import machine, spot
from ebbtide.core.operations.machine import Work
from ebbtide.core.operations.situation import Situation
from ebbtide.model.effect import Cordon, Effect, Evict, Launch, SoftTaint, Terminate
from ebbtide.model.operation import Removal, RemovalState, ScaleDown, Spot, SpotKind, SpotNotice
from ebbtide.model.record import Lease, Record
from tests.builders import NOW, make_pod, make_record, make_removal, make_scale_down
from tests.oracle import eviction, load, nodes, pace, scale_down
from tests.oracle.answers import Ruling, either, no, yes
from tests.oracle.bench_world import World
from tests.oracle.clusters import PENDING, Drawn, clusters, pod_kinds
from tests.oracle.drawing import Source
from tests.oracle.facts import By, Moment
from tests.oracle.load import pending
from tests.oracle.spot import may_replace
from tests.oracle.suite import Report
from tests.oracle.translate import moment_of

STEPS = 14
PACE = (15, 20, 30, 45)
TOKEN = 5
EVENTS = (
    "cpu 0.95",
    "cpu 0.71",
    "cpu none",
    "cpu 0.5",
    "pending",
    "worker lost",
    "worker cordoned",
    "pod comes",
)
REVOCABLE = (RemovalState.PLANNED, RemovalState.DRAINING, RemovalState.DRAINED)
GIVEN_BACK = (RemovalState.RELEASING, RemovalState.RELEASED, RemovalState.GONE)


@dataclass(frozen=True, slots=True)
class Draining:
    cluster: Drawn
    by: By
    target: int
    event: str
    at_step: int
    failures: int
    slow: bool
    """Whether the operation began long ago, so it must end."""


def cases(source: Source) -> Draining:
    cluster = clusters(source, pod_kinds(source), source.pick((0, 3, 8)))
    codes = source.number(0, 3 * 9 * 16 * 8 * 4 * 8 - 1)
    codes, by = divmod(codes, 3)
    codes, target = divmod(codes, 9)
    codes, event = divmod(codes, 16)
    codes, at_step = divmod(codes, 8)
    codes, failures = divmod(codes, 4)
    return Draining(
        cluster,
        (By.SCALE_DOWN, By.REBALANCE, By.INTERRUPTION)[by],
        target,
        EVENTS[event] if event < len(EVENTS) else "",
        at_step,
        (9, 0, 1, 9)[failures],
        codes == 0,
    )


def compare(case: Draining, report: Report) -> None:
    workers = [node for node in case.cluster.nodes if nodes.is_worker(node).answer == "yes"]
    if not workers:
        return
    node = workers[case.target % len(workers)]
    Path(case, node.name, report).run()


class Path:
    """One removal, step by step."""

    def __init__(self, case: Draining, name: str, report: Report) -> None:
        self.case, self.name, self.report = case, name, report
        self.world = World(case.cluster)
        self.settings = case.cluster.settings
        self.cpu: float | None = 0.1
        self.now = self.started_at = NOW
        self.record = make_record(removal_failures=case.failures, idle_since=NOW - 900)
        self.ended_by: bool | None = False
        self.looks = 0
        """How often its drain was looked at."""
        self.clean = case.event in ("", "cpu 0.5") and not case.slow

    def run(self) -> None:
        work = self._begin()
        if work is None:
            return
        self.report.cases[f"drains by {self.case.by}"] += 1
        self.report.cases["drains"] += 1
        possible = self._possible()
        for step in range(STEPS):
            if step == self.case.at_step:
                self._happen()
            work = self._step(work)
            if machine.is_settled(work):
                self._closed(work)
                break
            self.now += PACE[(step + self.case.target) % len(PACE)]
            self.world.pass_time(self.now)
        self._must_have_happened(possible)

    def _begin(self) -> Work | None:
        """The operation as it is first written."""
        zone = self.world.nodes[self.name].zone
        if self.case.by is By.SCALE_DOWN:
            self.started_at -= self.settings.stuck_seconds - 60 if self.case.slow else 0
            pool = self.world.nodes[self.name].pool
            removal = make_removal(self.name, zone=zone, pool=pool)
            operation = make_scale_down(removal, started_at=self.started_at)
            self.record = machine.written(self.record, operation)
            return operation
        kind = SpotKind.INTERRUPTION if self.case.by is By.INTERRUPTION else SpotKind.REBALANCE
        notice = SpotNotice(f"i-{self.name}", kind, self.now, self.now + 120)
        snapshot = self.world.seen(self.cpu, self.now)
        self.record, _ = spot.take_in(self.record, notice, snapshot, self.settings, self.now)
        return self.record.spot_for(notice.instance_id)

    def _happen(self) -> None:
        kind, _, value = self.case.event.partition(" ")
        others = [n for n in self.world.nodes.values() if n.name != self.name and n.pool and n.ready]
        if kind == "cpu":
            self.cpu = None if value == "none" else float(value)
        elif kind == "pending":
            pod = PENDING[1]("late")
            self.world.pods[pod.uid] = pod
            self.record = replace(self.record, pending_since=self.now - 500)
        elif kind == "pod":
            pod = make_pod("late", node_name=self.name)
            self.world.pods[pod.uid] = pod
        elif kind == "worker" and others:
            if value == "lost":
                self.world.lose(others[0].name)
            else:
                self.world.nodes[others[0].name] = replace(others[0], unschedulable=True)

    def _step(self, work: Work) -> Work:
        snapshot = self.world.seen(self.cpu, self.now)
        situation = Situation(
            snapshot,
            self.record,
            self.settings,
            Lease("cluster", "me", TOKEN, self.now + 300),
            self.now,
            self.now + 60,
        )
        moment = moment_of(snapshot, self.record, self.settings, self.now)
        step = machine.advance(work, situation)
        self._judge(work, step.state, step.effects, moment)
        self.record = machine.written(self.record, step.state)
        outcomes = self.world.perform(step.effects, TOKEN, self.now)
        after = machine.absorb(step.state, outcomes, situation)
        self.record = machine.written(self.record, after)
        return after

    # -- what was done must be allowed --------------------------------------------------------------

    def _judge(self, before: Work, after: Work, effects: Sequence[Effect], moment: Moment) -> None:
        by, told = self.case.by, f"{self.case.by} of {self.name} at +{self.now - NOW} s"
        spent: Counter[str] = Counter()
        for effect in effects:
            match effect:
                case Evict():
                    pod = self.world.pods[effect.uid]
                    ruling = eviction.may_evict(pod, by, moment)
                    self.report.check([ruling], f"{told} evicts {pod.full_name}")
                    spent.update(self._budgets_of(effect))
                case Cordon() | SoftTaint():
                    touched = [nodes.may_touch(n) for n in moment.nodes if n.name == effect.node_name]
                    self.report.check(touched, f"{told} marks {effect.node_name}")
                case Terminate(node_name=name) if name == self.name:
                    self.report.check([self._empty(moment)], f"{told} terminates")
                case Launch():
                    self.report.check([self._room_for_launch(moment)], f"{told} launches")
                case _:
                    pass
        self._check_budgets(spent, told)
        old, new = removal_of(before), removal_of(after)
        if new is not None:
            self._judge_removal(old, new, moment, effects, told)
        if isinstance(after, Spot) and isinstance(before, Spot) and before.slot is None:
            ruling = self._may_replace(moment)
            if after.slot is not None:
                self.report.check([ruling], f"{told} replaces the node")

    def _judge_removal(
        self, old: Removal | None, new: Removal, moment: Moment, effects: Sequence[Effect], told: str
    ) -> None:
        state = old.state if old is not None else RemovalState.PLANNED
        self.looks += state is RemovalState.DRAINING
        if self.case.by is not By.INTERRUPTION:
            ruling = scale_down.may_terminate(moment, self.name)
            if new.state is RemovalState.TERMINATING and state is not RemovalState.TERMINATING:
                self.report.check([ruling], f"{told} enters TERMINATING")
        if self.case.by is not By.SCALE_DOWN:
            return
        ended = scale_down.must_give_up(moment, self.name, self.started_at)
        if ended.demands and state in REVOCABLE:
            if new.state not in GIVEN_BACK:
                self.report.differs(f"{told} must be given up ({ended.why}) and is {new.state}")
            if any(isinstance(effect, Evict) for effect in effects):
                self.report.differs(f"{told} must be given up ({ended.why}) and evicts")
        # Where demand is back as well, that may be the reason that is said.
        demand = pending(moment) or load.must_release(moment).demands
        if ended.why == "it took too long" and not demand and new.state is RemovalState.RELEASING and old:
            self._check_obstacle(old, new, moment, told)
        if new.state is RemovalState.RELEASING and state is not RemovalState.RELEASING:
            self.ended_by = self._ended_by_demand(moment, ended)

    def _check_obstacle(self, old: Removal, new: Removal, moment: Moment, told: str) -> None:
        """It was looked at before, so its obstacle is known: a pod of the node, or a budget, is said."""
        found = scale_down.obstacles(moment, self.name)
        said = old.state is RemovalState.DRAINING and self.looks > 1
        names = {*found.value, *(budget.name for budget in moment.budgets)}
        if found.answer == "pod" and said and not any(name in new.reason for name in names):
            self.report.differs(f"{told} was given up, and {sorted(found.value)} is not said: {new.reason}")

    def _ended_by_demand(self, moment: Moment, ended: Ruling) -> bool | None:
        """Not known where something else stood in the way as well."""
        demand = bool(pending(moment)) or load.must_release(moment).demands
        if not demand:
            return False if load.rest_carries_load(moment, [self.name]).demands else None
        others = (
            scale_down.can_be_drained(moment, self.name, self.case.by),
            nodes.keeps_minimum(moment, [self.name]),
            nodes.keeps_zones(moment, [self.name]),
        )
        alone = all(ruling.demands for ruling in others) and ended.why != "it took too long"
        return True if alone and not moment.held else None

    def _may_replace(self, moment: Moment) -> Ruling:
        """The notice that is being answered is not somebody else's removal of the node."""
        return may_replace(
            replace(moment, going=moment.going - {self.name}),
            self.name,
            self.world.nodes[self.name].pool,
            self.case.by,
        )

    def _room_for_launch(self, moment: Moment) -> Ruling:
        return nodes.within_maximum(moment, ())

    def _empty(self, moment: Moment) -> Ruling:
        left = [p for p in moment.on(self.name) if eviction.passed_over(p).answer == "no"]
        return no(f"{left[0].full_name} is on it") if left and moment.named(self.name) else yes()

    def _budgets_of(self, effect: Evict) -> list[str]:
        pod = self.world.pods[effect.uid]
        found = [b for b in self.case.cluster.budgets if eviction.covers(b.selector, dict(pod.labels))]
        return [budget.name for budget in found if budget.namespace == pod.namespace]

    def _check_budgets(self, spent: Counter[str], told: str) -> None:
        for budget in self.case.cluster.budgets:
            if spent[budget.name] > budget.disruptions_allowed and self.case.by is not By.INTERRUPTION:
                self.report.differs(f"{told} takes more than budget {budget.name} allows")

    # -- what had to happen -------------------------------------------------------------------------

    def _possible(self) -> Ruling:
        """Whether nothing at all stands in the way of this removal, now and later."""
        later = 0.5 if self.case.event == "cpu 0.5" else self.cpu
        moment = moment_of(self.world.seen(later, self.now), make_record(), self.settings, self.now)
        if self.case.by is By.SCALE_DOWN and self.clean:
            terminable = scale_down.may_terminate(replace(moment, pods=()), self.name)
            drainable = scale_down.can_be_drained(moment, self.name, self.case.by)
            calm = all(nodes.counts(n).answer == "yes" for n in moment.nodes if n.pool) and not moment.budgets
            calm = calm and not pending(moment)
            return yes() if calm and terminable.demands and drainable.demands else either()
        return either()

    def _must_have_happened(self, possible: Ruling) -> None:
        told = f"{self.case.by} of {self.name}"
        there = self.world.instances[f"i-{self.name}"]
        if possible.demands and there.id not in self.world.asked_to_go:
            self.report.differs(
                f"{told}: nothing stands in the way, and it was not terminated in {self.now - NOW} s"
            )
        if (
            self.case.by is By.INTERRUPTION
            and self.case.event != "pod comes"
            and self.name in self.world.nodes
        ):
            moment = moment_of(self.world.seen(self.cpu, self.now), make_record(), self.settings, self.now)
            for pod in moment.on(self.name):
                ruling = eviction.may_evict(pod, By.INTERRUPTION, moment)
                # What a budget lets go one after the other may take more looks than there are.
                budgeted = any(eviction.covers(b.selector, dict(pod.labels)) for b in moment.budgets)
                if ruling.demands and not budgeted and not eviction._unspoken(pod):
                    self.report.differs(f"{told}: {pod.full_name} was not evicted")

    def _closed(self, work: Work) -> None:
        if not isinstance(work, ScaleDown):
            return
        removed = sum(r.state is RemovalState.GONE and r.terminated for r in work.removals)
        if not removed and any(r.state is RemovalState.GONE for r in work.removals):
            return  # lost by itself: the documents do not say
        what = pace.after_removals(removed, self.ended_by)
        closed = self._close(work, self.case.failures)
        told = f"closing after {self.case.event or 'nothing'} (failures {self.case.failures})"
        backs_off = closed.removal_backoff_until > self.now
        if what.answer == "cooldown" and (closed.last_scale_at < self.now or backs_off):
            self.report.differs(f"{told}: {what.why}: no cooldown")
        if what.answer == "none" and backs_off:
            self.report.differs(f"{told}: {what.why}, yet it backs off")
        if what.answer == "back-off":
            if not backs_off:
                self.report.differs(f"{told}: {what.why}: no back-off")
            before = closed.removal_backoff_until - self.now
            after = self._close(work, self.case.failures + 1).removal_backoff_until - self.now
            least = pace.next_backoff(before, self.settings).value
            if after < least:
                self.report.differs(f"{told}: a back-off of {after} s after one of {before} s")

    def _close(self, work: Work, failures: int) -> Record:
        record = replace(self.record, removal_failures=failures)
        snapshot = self.world.seen(self.cpu, self.now)
        situation = Situation(
            snapshot,
            record,
            self.settings,
            Lease("cluster", "me", TOKEN, self.now + 300),
            self.now,
            self.now + 60,
        )
        return machine.close(work, situation).record


def removal_of(work: Work) -> Removal | None:
    if isinstance(work, ScaleDown):
        return work.removals[0]
    return work.removal if isinstance(work, Spot) else None
