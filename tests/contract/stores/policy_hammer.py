"""One of several processes that write the same policy, state, ledger, names and keys.

It reports only what the store acknowledged. `test_policy_processes.py` then asks whether it is there.
"""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

from ebbtide.errors import Conflict, NameTaken, Retryable
from ebbtide.model.idle import LedgerDay
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.ports import PolicyStore
from tests.contract.stores.hammer import open_both, start_together
from tests.contract.stores.policy_examples import make_day, make_policy, policy_id

HAMMER_SECONDS = 2
SHARED = policy_id(1)
PRICE = Decimal("0.01234567890123456789")
NAMES = 5
FAR = 4_000_000_000


@dataclass
class Done:
    owner: str
    versions: list[tuple[int, str]] = field(default_factory=list)
    """Of the shared policy, with the entry written in the same write."""
    revs: list[tuple[int, str]] = field(default_factory=list)
    batch_revs: list[int] = field(default_factory=list)
    seconds: int = 0
    """Added to the ledger."""
    kept: dict[str, str] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    refused: int = 0


def hammer_policies(place: str, cluster: str, number: int, arrivals: Path) -> Done:
    store, policies = open_both(place, cluster)
    chance = random.Random(number)
    done = Done(f"p{number}")
    end = start_together(arrivals, number) + HAMMER_SECONDS
    while time.monotonic() < end:
        for act in (put_policy, write_state, write_states):
            try:
                act(policies, done, chance)
            except (Conflict, Retryable):
                done.refused += 1
        keep_once(policies, done)
        take_name(policies, done)
    store.close()
    return done


def put_policy(policies: PolicyStore, done: Done, _: random.Random) -> None:
    policy = policies.find_policy(SHARED)
    assert policy is not None
    entry = _entry(done)
    written = policies.put_policy(
        replace(policy, cooldown_seconds=policy.cooldown_seconds + 1, grace_seconds=policy.version), [entry]
    )
    done.versions.append((written.version, entry.id))


def write_state(policies: PolicyStore, done: Done, chance: random.Random) -> None:
    state = policies.find_state(SHARED)
    assert state is not None
    seconds, entry = chance.randint(1, 60), _entry(done)
    written = policies.write_state(replace(state, wake_count=state.wake_count + 1), [_day(seconds)], [entry])
    done.revs.append((written.rev, entry.id))
    done.seconds += seconds


def write_states(policies: PolicyStore, done: Done, _: random.Random) -> None:
    states = [replace(state, wake_count=state.wake_count + 1) for state in policies.list_states()]
    done.batch_revs += [state.rev for state in policies.write_states(states) if state.policy_id == SHARED]


def keep_once(policies: PolicyStore, done: Done) -> None:
    key = f"key-{len(done.kept)}"
    done.kept[key] = policies.keep_once(key, f"{key} of {done.owner}", FAR, 0)


def take_name(policies: PolicyStore, done: Done) -> None:
    for name in (f"name-{number}" for number in range(NAMES)):
        if name in done.named or policies.find_policy_named(name):
            continue
        try:
            done.named[name] = policies.put_policy(make_policy(uuid.uuid4().int, name)).id
        except (NameTaken, Retryable):
            done.refused += 1


def _day(seconds: int) -> LedgerDay:
    return replace(make_day(1), scaled_to_zero_seconds=seconds, zero_price_seconds=PRICE * seconds)


def _entry(done: Done) -> LogEntry:
    return LogEntry(uuid.uuid4().hex, int(time.time()), LogKind.POLICY, "hammered", done.owner)
