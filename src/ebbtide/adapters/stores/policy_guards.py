"""What a refused write of a policy or state means, in the same words for every store.

Nothing here talks to a database: a store finds out what is there and comes here to say it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ebbtide.errors import (
    Conflict,
    EbbtideError,
    KeyUsed,
    NameTaken,
    StoreUnusable,
    TargetTaken,
    Unanswered,
    Usage,
)
from ebbtide.model.idle import IdleState
from ebbtide.model.policy import Policy

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """The last write of a row: its number and its nonce; number 0 is a row that is not there."""

    number: int = 0
    nonce: str = ""


NOT_THERE = StoredPolicy()


@dataclass(frozen=True, slots=True)
class PolicyAttempt:
    """A conditional write on its way. Its nonce tells our own write from somebody else's."""

    nonce: str
    reply_lost: bool = False

    def was_carried_out(self, stored: StoredPolicy, expected: int, what: str) -> bool:
        """Whether the stored row is what this attempt wrote; `Unanswered` where nobody can tell any more."""
        if stored.nonce == self.nonce:
            return True
        if self.reply_lost and stored.number > expected + 1:
            raise Unanswered(
                f"the reply to a write of {what} was lost and others have written since: read it again to "
                "see what became of it"
            )
        return False


def policy_refusal(policy: Policy, stored: StoredPolicy, holder: str) -> EbbtideError | None:
    """Why the policy may not be written; `holder` is the id of the policy that has its name."""
    if stored.number != policy.version:
        return version_refusal(policy.id, policy.version, stored)
    if holder and holder != policy.id:
        return NameTaken(
            f"another policy ({holder}) has the name {policy.name!r}; nothing was changed. "
            "Choose another name"
        )
    return None


def target_refusal(policy: Policy, target: str, holder: Policy) -> TargetTaken:
    return TargetTaken(
        f"{target} is the target of policy {holder.name} already, so policy {policy.name} was not written; "
        "add it there, or disable or delete that policy"
    )


def key_refusal(key: str) -> KeyUsed:
    return KeyUsed(f"{key} was used before; nothing was changed")


def version_refusal(policy_id: str, version: int, stored: StoredPolicy) -> Conflict:
    if not stored.number:
        return Conflict(f"the policy {policy_id} is no longer there: somebody else deleted it")
    if not version:
        return Conflict(f"the policy {policy_id} is there already, at version {stored.number}: read it again")
    return Conflict(
        f"the policy {policy_id} is at version {stored.number}, not {version}: somebody else wrote first"
    )


def state_refusal(state: IdleState, stored: StoredPolicy) -> Conflict:
    if not stored.number:
        return Conflict(f"the policy {state.policy_id} has no state any more: somebody else deleted it")
    return Conflict(
        f"the state of policy {state.policy_id} is at rev {stored.number}, not {state.rev}: "
        "somebody else wrote first"
    )


def changed_meanwhile(what: str) -> Conflict:
    return Conflict(f"{what} changed while it was being written: read it again")


def each_alone(put: Callable[[T], Policy], puts: Sequence[T]) -> list[Policy | EbbtideError]:
    """One after the other. One that is refused is no reason to leave the others out; a store that fails is:
    each of them would wait for it again."""
    found: list[Policy | EbbtideError] = []
    for each in puts:
        try:
            found.append(put(each))
        except EbbtideError as error:
            found.append(error)
            if not is_refusal(error):
                break
    return found + found[-1:] * (len(puts) - len(found))


def is_refusal(error: EbbtideError) -> bool:
    """Whether it is about this one policy, not about the store."""
    return isinstance(error, Conflict | Usage) and not isinstance(error, StoreUnusable)
