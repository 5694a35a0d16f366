"""What went wrong with a call to the API server, in the errors of `ebbtide.errors`.

    reading    refused for who we are, or not to be trusted: Usage; anything else: Retryable
    acting     never sent, or throttled: Retryable; refused: Final; no definite answer: Unanswered

Every message says in one sentence what happened and, where a person must act, what to do.
"""

from __future__ import annotations

import ssl

import msgspec
import urllib3.exceptions as failures

from ebbtide import typed
from ebbtide.errors import (
    UNREADABLE,
    EbbtideError,
    Final,
    Retryable,
    Throttled,
    Unanswered,
    Usage,
)
from ebbtide.redact import redact

OK, CREATED, ACCEPTED = 200, 201, 202
UNAUTHORISED, FORBIDDEN, NOT_FOUND, CONFLICT, GONE = 401, 403, 404, 409, 410
TOO_MANY, SERVER_ERROR = 429, 500
NAMESPACE_TERMINATING = "NamespaceTerminating"


class Cause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class Details(msgspec.Struct, frozen=True):
    causes: list[Cause] | None = None


class StatusBody(msgspec.Struct, frozen=True):
    """The body of an answer that is not a success."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None

    def caused_by(self, reason: str) -> bool:
        return any(c.reason == reason for c in (self.details and self.details.causes) or ())


class Refused(Exception):
    """An answer of the API server other than success. The caller translates it."""

    def __init__(self, code: int, status: StatusBody) -> None:
        super().__init__(redact(f"{code} {status.message}"))
        self.code = code
        self.status = status


def read_status(body: bytes) -> StatusBody:
    try:
        return typed.decode(body, StatusBody)
    except UNREADABLE:
        return StatusBody(" ".join(body[:200].decode(errors="replace").split()))


def refused_reading(refused: Refused, what: str, server: str) -> EbbtideError:
    code, says = refused.code, refused.status.message
    if code == UNAUTHORISED:
        return Usage(f"{server} does not accept our credentials: renew the token or log in again")
    if code == FORBIDDEN:
        return Usage(f"not allowed to read {what} ({says}): apply the RBAC rules of deploy/manifests")
    if code == NOT_FOUND:
        return Usage(f"{server} knows no {what}: is it a Kubernetes API server of version 1.21 or later?")
    if code == TOO_MANY:
        return Throttled(f"{server} asks to slow down while {what} were read")
    return Retryable(f"{what} could not be read: {server} answered {code} {says}".rstrip())


def refused_acting(refused: Refused, what: str, server: str) -> EbbtideError:
    code, status = refused.code, refused.status
    said = f"{what}: {server} answered {code} {status.message}".rstrip()
    if code == UNAUTHORISED:
        return Retryable(f"{what}: {server} does not accept our credentials: renew the token")
    if code == FORBIDDEN and _namespace_ends(status):
        return Retryable(said)
    if code == FORBIDDEN:
        return Final(f"{said}: apply the RBAC rules of deploy/manifests")
    if code == CONFLICT:
        return Retryable(said)
    if code == TOO_MANY:
        return Throttled(said)
    return Unanswered(said) if code >= SERVER_ERROR else Final(said)


def _namespace_ends(status: StatusBody) -> bool:
    return status.caused_by(NAMESPACE_TERMINATING) or "because it is being terminated" in status.message


def failed(error: Exception, what: str, server: str, acting: bool) -> EbbtideError:
    """A call that got no answer, or none that can be trusted."""
    root = _root(error)
    if isinstance(root, ssl.SSLError):
        return _untrusted(root, server, acting)
    if isinstance(root, failures.NewConnectionError | failures.ConnectTimeoutError | OSError) and not sent(
        error
    ):
        return Retryable(f"{server} cannot be reached ({_short(root)}): check the address and the network")
    says = f"{what}: no whole answer from {server} ({_short(root)})"
    return Unanswered(says) if acting else Retryable(says)


def sent(error: Exception) -> bool:
    """Whether the request may have arrived."""
    never = failures.NewConnectionError, failures.ConnectTimeoutError, ConnectionRefusedError
    return not isinstance(_root(error), never)


def _untrusted(error: ssl.SSLError, server: str, acting: bool) -> EbbtideError:
    if isinstance(error, ssl.SSLCertVerificationError):
        says = (
            f"the certificate of {server} is not to be trusted ({error.verify_message}): "
            "check certificate-authority and server in the kubeconfig"
        )
    else:
        says = f"no TLS with {server} ({error.reason or error}): check the address and the client certificate"
    return Retryable(says) if acting else Usage(says)


def _root(error: BaseException) -> BaseException:
    """urllib3 wraps: the first that says what it was."""
    inner = getattr(error, "reason", None)
    if isinstance(error, failures.MaxRetryError | failures.SSLError) and isinstance(inner, BaseException):
        return _root(inner)
    if isinstance(error, failures.SSLError | failures.ProtocolError):
        for part in error.args:
            if isinstance(part, BaseException):
                return _root(part)
    return error


def _short(error: BaseException) -> str:
    text = str(error).rpartition(": ")[2] or type(error).__name__
    return text[:160]
