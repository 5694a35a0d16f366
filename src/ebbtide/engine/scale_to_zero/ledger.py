"""What was saved: read from the ledger with the stretch in progress added, and rebuilt from the log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ebbtide.core.scale_to_zero.savings import SavingsReport, fold, open_stretch, report
from ebbtide.engine.leased import Leased, released
from ebbtide.engine.scale_to_zero.context import PolicyContext, read_stretch
from ebbtide.errors import Conflict, LeaseLost, NotFound
from ebbtide.model.idle import LedgerDay, Stretch
from ebbtide.model.log import LogKind
from ebbtide.model.policy import Policy

PAGE = 1000
MOST_READS = 10
MOST_TURNS = 20
TURN_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Summary:
    total: SavingsReport
    policies: tuple[SavingsReport, ...]
    """One for each policy that saved something, by id; the total is their sum."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    policy_id: str
    stretches: int
    days: int
    changed: bool
    """Whether the ledger was not what its log says."""


class Ledger:
    def __init__(self, context: PolicyContext) -> None:
        self._context = context
        self._ports = context.ports

    def savings(self, policy_id: str, first: str, last: str) -> SavingsReport:
        policy = self._ports.policies.find_policy(policy_id)
        rows = list(self._ports.policies.list_days(policy_id, first, last))
        if policy is None and not rows and not self._ports.policies.list_days(policy_id):
            raise NotFound(f"there is no policy {policy_id} and nothing of it in the ledger")
        return report(policy_id, first, last, [*rows, *self._open(policy)])

    def summary(self, first: str, last: str) -> Summary:
        rows = list(self._ports.policies.list_days("", first, last))
        states = {state.policy_id: state for state in self._ports.policies.list_states()}
        for policy in self._context.all_policies():
            if (state := states.get(policy.id)) is not None:
                stretch = open_stretch(policy, state, self._context.now)
                rows += fold([stretch] if stretch and self._context.defaults.cost_tracking else [])
        by_policy: dict[str, list[LedgerDay]] = {}
        for row in rows:
            by_policy.setdefault(row.policy_id, []).append(row)
        each = (report(one, first, last, by_policy[one]) for one in sorted(by_policy))
        return Summary(report("", first, last, rows), tuple(one for one in each if one.days))

    def rebuild(self, policy_id: str = "") -> Sequence[Rebuilt]:
        """From the stretches in the log, under the lease of the idle loop. A wake takes no lease, so they may
        grow meanwhile; then it is done again until they did not: what was written in between is in the log as
        well. `LeaseLost` where a loop that works did not give it back; each policy is whole by itself."""
        leased = self._turn()
        with released(leased):
            known = {row.policy_id for row in self._ports.policies.list_days(policy_id)}
            known |= {policy_id} if policy_id else {policy.id for policy in self._context.all_policies()}
            done = []
            for one in sorted(known):
                if leased.half_over():
                    leased.renew()
                done.append(self._rebuild(one))
        return done

    def _turn(self) -> Leased:
        """Rounds are short, so who wants one waits a little for its turn."""
        ports, owner = self._ports, f"rebuild-{self._ports.new_id()}"
        for _ in range(MOST_TURNS):
            with suppress(LeaseLost):
                return self._context.leased(owner)
            ports.clock.sleep(TURN_SECONDS)
        raise LeaseLost(
            f"the idle loop has not released its lease for {MOST_TURNS * TURN_SECONDS:g} s; the ledger was "
            "left as it is. Try again; if no runner is active, the lease expires by itself."
        )

    def _rebuild(self, policy_id: str) -> Rebuilt:
        before = tuple(self._ports.policies.list_days(policy_id))
        stretches = self._stretches(policy_id)
        for _ in range(MOST_READS):
            self._ports.policies.replace_days(policy_id, fold(stretches))
            again = self._stretches(policy_id)
            if len(again) == len(stretches):
                break
            stretches = again
        else:
            raise Conflict(f"the ledger of policy {policy_id} keeps being written by others: try again")
        days = fold(stretches)
        return Rebuilt(policy_id, len(stretches), len(days), _plain(before) != _plain(days))

    def _stretches(self, policy_id: str) -> list[Stretch]:
        found: list[Stretch] = []
        before = ""
        while page := self._ports.store.read_log([LogKind.STRETCH], policy_id, PAGE, before):
            found.extend(read_stretch(entry) for entry in page)
            before = page[-1].id
            if len(page) < PAGE:
                break
        return found[::-1]

    def _open(self, policy: Policy | None) -> Sequence[LedgerDay]:
        state = self._ports.policies.find_state(policy.id) if policy is not None else None
        if policy is None or state is None or not self._context.defaults.cost_tracking:
            return ()
        stretch = open_stretch(policy, state, self._context.now)
        return fold([stretch]) if stretch else ()


def _plain(days: Sequence[LedgerDay]) -> list[LedgerDay]:
    return sorted(days, key=lambda day: (day.date, day.currency))
