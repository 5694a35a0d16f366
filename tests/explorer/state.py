"""Which state a path is in: the world, the store and the position of every runner, as one number."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.core.operations.facts import parts
from ebbtide.simulator.run.runner import Stage
from tests.explorer.actors import Actor
from tests.explorer.canonical import Names, between, digest_record, digest_world, encode, ranks
from tests.explorer.sleeping import state_of, versions


class State:
    """Of one stage; what did not change since it was last asked is not computed again."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._world: tuple[tuple[object, ...], int, dict[str, int]] | None = None
        self._record: tuple[object, int, int] | None = None

    def begins(self) -> int:
        """World and record: all that a tick can depend on."""
        return hash((self._world_digest(), self._record_digest(), self._sleep()))

    def _sleep(self) -> int:
        """The states of the policies, where there are any, and which Services lead to the gates."""
        if not self.stage.policies:
            return 0
        world = self.stage.world
        return hash((encode(state_of(self.stage), Names(int(world.now))), frozenset(world.takeovers)))

    def _world_digest(self) -> int:
        world = self.stage.world
        mail = world.incidents.mail
        seen = (world.view(), world.machines.listed())
        version = (*seen, world.timeline.serial, world.now, len(mail.arrived))
        known = self._world
        # Both are the same objects for as long as nothing has changed.
        same = known is not None and known[0][0] is seen[0] and known[0][1] is seen[1]
        if known is not None and same and known[0][2:] == version[2:]:
            return known[1]
        names = Names(int(world.now))
        digest = digest_world(world, names)
        self._world = (version, digest, names.known)
        return digest

    def _record_digest(self) -> int:
        world = self._world_digest()
        record = self.stage.checker.record
        known = self._record
        if known is not None and known[0] is record and known[1] == world:
            return known[2]
        assert self._world is not None
        names = Names(int(self.stage.world.now), self._world[2])
        digest = digest_record(record, names) if record is not None else 0
        self._record = (record, world, digest)
        return digest

    def of(
        self, actors: Sequence[Actor], runs: int, where: tuple[int, str], current: Actor | None = None
    ) -> int:
        """`runs` counts who has run so far, `where` is whose turn it is and what is about to happen."""
        now = self.stage.clock.now()
        world, record = self._world_digest(), self._record_digest()
        leases, tokens, token, rev = self._leases(actors, now)
        current_versions = versions(self.stage)
        runners: list[tuple[object, ...]] = []
        for actor in actors:
            if actor.thread is None:
                runners.append((actor.kind, actor.asks, actor.answered))
                continue
            tokens.append(actor.token)
            frozen = (actor.frozen, between(actor.wakes_at, int(now)), actor.wakes_after - runs)
            runners.append(
                (
                    actor.kind,
                    actor.chain,
                    actor.rev == rev,
                    now - actor.started,
                    *frozen,
                    actor is current,
                    actor.asks,
                    actor.answered,
                    *(each == actor.seen.get(of) for of, each in current_versions.items()),
                )
            )
        return hash((world, record, self._sleep(), leases, ranks(tokens, token), tuple(runners), where))

    def _leases(self, actors: Sequence[Actor], now: float) -> tuple[tuple[object, ...], list[int], int, int]:
        """Leases with their holders, all tokens, the cluster's token and the revision."""
        items = self.stage.database.items
        owners = {actor.owner: number for number, actor in enumerate(actors)}
        leases, tokens = [], []
        token = rev = 0
        for key, item in items.items():
            mine = item.get("lockToken", 0)
            if key == "cluster":
                token, rev = mine, item.get("rev", 0)
            elif self.stage.policies:
                token = mine  # only the loop over the policies holds a lease
            owner = item.get("lockOwner", "")
            left = item.get("lockUntilEpoch", 0) - int(now)
            held = owner and left >= 0
            leases.append((key[:9], owners.get(owner, -1) if held else -2, left if held else -1))
            tokens.append(mine)
        world = self.stage.world
        tokens += [node.owner.token for node in world.inventory.nodes.values() if node.owner is not None]
        record = self.stage.checker.record
        if record is not None:
            open_ids = {
                work.id for work in (record.operation, record.set_aside, *record.spots) if work is not None
            }
            tokens += [token for key, token in world.fences.items() if key.partition("/")[2] in open_ids]
            for work in (record.operation, record.set_aside, *record.spots):
                if work is not None:
                    tokens += [getattr(part, "fence_token", 0) for part in parts(work)]
        return tuple(leases), tokens, token, rev
