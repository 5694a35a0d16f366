"""What an error of the Hetzner Cloud API means to a caller, in one sentence with the next step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ebbtide.errors import EbbtideError, Final, NoCapacity, Retryable, Throttled, Unanswered

NO_CAPACITY = {
    "resource_unavailable": "Hetzner has none of it now",
    "placement_error": "the placement group is full: give one more in hetzner.placement_groups",
    "resource_limit_exceeded": "the project's limit is reached: ask Hetzner for a higher one",
    "server_limit_exceeded": "the project's limit is reached: ask Hetzner for a higher one",
    "primary_ip_limit_exceeded": "the project's limit of addresses is reached: ask Hetzner for a higher one",
    "no_space_left_in_location": "Hetzner has no room left there",
    "unsupported_location_for_server_type": "Hetzner does not offer it there",
}
NEXT_STEPS = {
    "unauthorized": "correct the token in HCLOUD_TOKEN: it must belong to the project and be able to write",
    "forbidden": "give a token that may write",
    "token_readonly": "give a token that may write",
    "protected": "switch off its deletion protection, or remove it by hand",
    "invalid_input": "correct the type, image, location, network or key that it names",
    "invalid_server_type": "correct the types of the pool: Hetzner knows no such type",
    "not_found": "correct the image, network, placement group or key that it names",
}
_WAITS = frozenset({"locked", "conflict", "maintenance"})
_LOST = frozenset({"service_error", "server_error", "unknown_error", "timeout", "bad_gateway", "unavailable"})
_THROTTLED = frozenset({"rate_limit_exceeded", "429"})
_SERVER_ERROR = 500


class HetznerAnswered(Exception):
    """A code that the caller wants to see for itself."""


@contextmanager
def translated(what: str, wanted: frozenset[str] = frozenset()) -> Iterator[None]:
    """`wanted` codes come out as `HetznerAnswered`, all others as errors of Ebbtide."""
    import requests
    from hcloud import APIException

    try:
        yield
    except APIException as error:
        if str(error.code) in wanted:
            raise HetznerAnswered(str(error.code)) from error
        raise meaning(str(error.code), error.message, what) from error
    except requests.exceptions.ConnectTimeout as error:
        raise Retryable(f"{what}: Hetzner cannot be reached; nothing was done") from error
    except requests.exceptions.ConnectionError as error:
        if _never_sent(error):
            raise Retryable(f"{what}: Hetzner cannot be reached; nothing was done") from error
        raise Unanswered(f"{what}: the connection was lost: it may have been done") from error
    except requests.exceptions.RequestException as error:
        raise Unanswered(f"{what}: no answer ({type(error).__name__}): it may have been done") from error
    except (KeyError, TypeError, ValueError) as error:  # hcloud met an answer it cannot read
        raise Unanswered(f"{what}: the answer could not be read: it may have been done") from error


def _never_sent(error: Exception) -> bool:
    from urllib3.exceptions import MaxRetryError, NewConnectionError

    inner = error.args[0] if error.args else None
    return isinstance(inner, MaxRetryError) and isinstance(inner.reason, NewConnectionError)


def meaning(code: str, message: str, what: str) -> EbbtideError:
    if code in NO_CAPACITY:
        return NoCapacity(f"{what}: {NO_CAPACITY[code]} ({code})")
    if code in _THROTTLED:
        return Throttled(
            f"{what}: the API's rate limit is reached; nothing was done, it is tried again later"
        )
    if code in _WAITS:
        return Retryable(f"{what}: not now ({code}): {message}")
    if code in _LOST or (code.isdigit() and int(code) >= _SERVER_ERROR):
        return Unanswered(f"{what}: Hetzner failed ({code}): it may have been done")
    return Final(f"{what}: refused ({code}): {message}.", step=NEXT_STEPS.get(code, ""))
