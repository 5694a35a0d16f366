"""Taking Services over before their policy sleeps, and giving them back once their pods are ready.

Each step can be done again, by any process: a runner that dies leaves a Service with pods, with gates, or
with both. `reconcile` finds and corrects what is left over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ebbtide.core.scale_to_zero.wake import (
    ASLEEP,
    first_choice,
    is_as_wanted,
    may_not_release,
    may_not_take_over,
)
from ebbtide.engine.scale_to_zero.context import PolicyContext
from ebbtide.errors import Conflict, EbbtideError, Final, NotFound
from ebbtide.model.idle import NO_WHY, PolicyCause, PolicyWhy
from ebbtide.model.policy import GatePort, Policy, Service, ServiceRef, Takeover
from ebbtide.ports import Services

MOST_TRIES = 20
CLAIMED_SECONDS = 30 * 86_400
"""How long a gate port is kept for a Service port that is no longer used."""
ASKED_SECONDS = 600
"""How long a claim is known without asking again."""


@dataclass(frozen=True, slots=True)
class GateEntry:
    """One port of the gates and what it stands for."""

    port: int
    policy: Policy
    service: ServiceRef
    port_name: str


class Gating:
    def __init__(self, desk: PolicyContext) -> None:
        self._desk = desk
        self._policies = desk.ports.policies
        self._claims: dict[str, tuple[int, int]] = {}
        """By Service port: its gate port, and when that was asked."""

    @property
    def on(self) -> bool:
        return self._desk.ports.services is not None

    @property
    def _services(self) -> Services:
        if self._desk.ports.services is None:
            raise Final("it has a gate, and gate.service is not configured here")
        return self._desk.ports.services

    def why_not(self, policy: Policy) -> PolicyWhy:
        """Why its Services cannot be taken over now; nothing where they can, or where it has none."""
        try:
            gates = self._services.gates() if policy.gate is not None else ()
            for ref in services_of(policy):
                if why := may_not_take_over(self._services.read(ref), gates):
                    return why
        except NotFound as error:
            return PolicyWhy(PolicyCause.MISSING, str(error))
        except EbbtideError as error:
            return PolicyWhy(PolicyCause.GATE_FAILS if self.on else PolicyCause.NO_GATE, str(error))
        return NO_WHY

    def take_over(self, policy: Policy) -> None:
        """All its Services, before anything of it is scaled to zero. May raise `EbbtideError`."""
        gates = self._services.gates() if policy.gate is not None else ()
        for ref in services_of(policy):
            self._take(self._services.read(ref), gates)

    def _take(self, seen: Service, gates: Sequence[str]) -> None:
        for _ in range(MOST_TRIES):
            if why := may_not_take_over(seen, gates):
                raise Final(why.says)
            try:
                self._services.take_over(seen, self.ports_of(seen), gates)
                return
            except Conflict:
                seen = self._services.read(seen.ref)
        raise Conflict(
            f"the takeover of {seen.ref} keeps being changed by others: the next round tries again"
        )

    def release(self, policy: Policy) -> Iterator[str]:
        """Give back what may be; a sentence for each Service that was."""
        for ref in services_of(policy):
            seen = self._services.read(ref)
            if seen.takeover is None:
                continue
            # Read after the takeover: who falls asleep from now on changes the version that is released here.
            state = self._policies.find_state(policy.id)
            # Crash table: release-frozen. The policy may have gone back to sleep meanwhile.
            if state is not None and not may_not_release(seen, state):
                self._services.release(seen.takeover)
                yield f"{ref} points at its pods again"

    def reconcile(self) -> list[str]:
        """Bring every takeover to what the states say; what was done, in sentences. Errors are among them:
        what did not work is found again by the next call."""
        if not self.on:
            return []
        said: list[str] = []
        taken = {one.service: one for one in self._services.list_taken()}
        # States and policies after the takeovers: an orphan is one that no policy has had since it was seen.
        states = {state.policy_id: state for state in self._policies.list_states()}
        gated = [policy for policy in self._desk.all_policies() if policy.gate is not None]
        gates = self._services.gates() if gated else ()
        for policy in gated:
            state = states.get(policy.id)
            # Crash table: takeover-crash. The process may have died between the two.
            asleep = state is not None and state.phase in ASLEEP
            try:
                said += self._stand_in(policy, taken, gates) if asleep else self._give_back(policy, taken)
            except EbbtideError as error:
                said.append(f"{policy.name}: {error}")
        ours = {ref for policy in gated for ref in services_of(policy)}
        for orphan in (one for ref, one in taken.items() if ref not in ours):
            said += self._drop(orphan)
        return said

    def _stand_in(
        self, policy: Policy, taken: Mapping[ServiceRef, Takeover], gates: Sequence[str]
    ) -> Iterator[str]:
        """Of a policy that sleeps: a takeover that is missing, or that names gates that are gone."""
        for ref in services_of(policy):
            seen = self._services.read(ref)
            # Crash table: gate-dies. A gate that is gone must not stay an endpoint.
            if not is_as_wanted(seen.takeover, self.ports_of(seen), gates):
                self._take(seen, gates)
                yield f"{ref} points at {len(gates)} gates" if ref in taken else f"{ref} was taken over"

    def _give_back(self, policy: Policy, taken: Mapping[ServiceRef, Takeover]) -> Iterator[str]:
        # Crash table: release-crash. A runner may have died between the wake and the release.
        if any(ref in taken for ref in services_of(policy)):
            yield from self.release(policy)

    def _drop(self, orphan: Takeover) -> Iterator[str]:
        try:
            self._services.release(orphan)
            yield f"{orphan.service} no longer has a gate: it was released"
        except EbbtideError as error:
            yield str(error)

    def entries(self) -> list[GateEntry]:
        """What every port of the gates stands for, asleep or awake."""
        found = []
        for policy in self._desk.all_policies() if self.on else ():
            for ref in services_of(policy):
                try:
                    ports = self.ports_of(self._services.read(ref))
                except EbbtideError:
                    continue  # the round says so
                found += [GateEntry(one.port, policy, ref, one.name) for one in ports]
        return found

    def ports_of(self, service: Service) -> tuple[GatePort, ...]:
        return tuple(GatePort(each.name, self._claim(service.ref, each.name)) for each in service.ports)

    def _claim(self, ref: ServiceRef, port_name: str) -> int:
        """The gate port of a Service port, the same for every process: who asks first writes it down."""
        ports, now = self._desk.ports.gate_ports, self._desk.now
        value = f"{ref.namespace}/{ref.name}/{port_name}"
        known = self._claims.get(value)
        if known is not None and now - known[1] < ASKED_SECONDS:
            return known[0]
        start = first_choice(ref, port_name, len(ports)) if ports else 0
        for place in range(len(ports)):
            port = ports[(start + place) % len(ports)]
            if self._policies.keep_once(f"gate-port-{port}", value, now + CLAIMED_SECONDS, now) == value:
                self._claims[value] = (port, now)
                return port
        raise Final(f"all {len(ports)} ports of the gate are taken: {ref} needs one more; widen gate.ports")


def services_of(policy: Policy) -> tuple[ServiceRef, ...]:
    return policy.gate.services if policy.gate is not None else ()
