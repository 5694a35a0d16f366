"""The errors of Ebbtide. What matters to a caller is whether trying again can help.

    EbbtideError
    ├── Usage            wrong input of a person: exit code 2, nothing touched
    │   ├── ConfigError
    │   ├── StoreUnusable    corrupt, too old, too new, not writable
    │   ├── NameTaken        another policy has this name
    │   ├── SolverMissing    the packer that is asked for is not installed
    │   └── TargetTaken      another policy that is enabled has this target
    ├── Conflict         somebody else wrote first: read again
    │   └── LeaseLost        the lease is held by another, or has run out
    ├── Retryable        definitely not done; the same call may work later
    │   ├── Throttled
    │   └── BudgetExhausted  a disruption budget allows no eviction now
    ├── Unanswered       no definite answer: it may have been done
    └── Final            definitely not done, and repeating it will not help
        ├── NoCapacity       the cloud has none of this type, market and zone now
        │   └── OfferRefused     nor will it: the type does not go with the image, or is not sold there
        ├── NotFound         there is no such thing
        ├── NotOurs          fenced off: another owner, another node under the name, a newer token
        ├── KeyUsed          a key that counts once was used before
        ├── NewerRecord      written by a newer version of Ebbtide
        └── AddressRefused   an address that is never spoken to, or is not on the list

Each message says what happened, and where a person must act also what to do.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from ebbtide.redact import redact

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What parsers raise for bytes that are not what they should be; the last is for nesting without end."""


class EbbtideError(Exception):
    """Any error that Ebbtide raises on purpose. Its words never have a secret in them. `step` is what to do
    next, where the error knows it better than the caller; `message` is the rest."""

    def __init__(self, says: str = "", step: str = "") -> None:
        super().__init__(f"{says} Next: {step}." if step else says)
        self.message = redact(says)
        self.step = redact(step)

    def __str__(self) -> str:
        return redact(super().__str__())


class Usage(EbbtideError):
    pass


class ConfigError(Usage):
    pass


class StoreCause(StrEnum):
    """Why a store cannot be used."""

    NOT_MADE = "not made"
    """The file, the database's tables or the table are missing: they have to be created."""
    NO_SUCH_DATABASE = "no such database"
    NO_FOLDER = "no folder"
    OLD_SCHEMA = "old schema"
    NEW_SCHEMA = "new schema"
    FOREIGN = "foreign"
    """It holds something else, and was left as it is."""
    CORRUPT = "corrupt"
    NOT_READABLE = "not readable"
    NOT_WRITABLE = "not writable"
    READ_ONLY = "read-only"
    DISK_FULL = "disk full"
    UNSAFE_FILE_SYSTEM = "unsafe file system"
    """Locks do not hold there, or may not."""
    NO_RIGHTS = "no rights"
    NO_CREDENTIALS = "no credentials"
    NO_REGION = "no region"
    UNKNOWN_HOST = "unknown host"
    UNREACHABLE = "unreachable"
    BAD_URL = "bad URL"
    NO_DRIVER = "no driver"
    REFUSED = "refused"
    """By the server, for a reason that only its own words tell."""


class StoreUnusable(Usage):
    def __init__(self, cause: StoreCause, says: str) -> None:
        super().__init__(says)
        self.cause = cause

    def __reduce__(self) -> tuple[type[StoreUnusable], tuple[StoreCause, str]]:
        return StoreUnusable, (self.cause, self.message)


class NameTaken(Usage):
    pass


class SolverMissing(Usage):
    pass


class TargetTaken(Usage):
    pass


class Conflict(EbbtideError):
    pass


class LeaseLost(Conflict):
    pass


class Retryable(EbbtideError):
    pass


class Throttled(Retryable):
    pass


class BudgetExhausted(Retryable):
    pass


class Unanswered(EbbtideError):
    pass


class Final(EbbtideError):
    pass


class NoCapacity(Final):
    pass


class OfferRefused(NoCapacity):
    """About the offer itself, so another one may do. Never about permissions, quotas or the rest of the
    request, which would be refused for every offer."""


class NotFound(Final):
    pass


class NotOurs(Final):
    pass


class KeyUsed(Final):
    pass


class NewerRecord(Final):
    pass


class AddressRefused(Final):
    pass
