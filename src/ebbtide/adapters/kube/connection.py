"""One connection to an API server, in plain HTTP, and what went wrong with a call, in the errors of
`ebbtide.errors`. Lists come in pages, all of one moment.

Every call has a time limit, and none is repeated here: the caller knows whether it may be. A list that
cannot be read to its end is an error, never a list.

    reading    refused for who we are, or not to be trusted: Usage; anything else: Retryable
    acting     never sent, or throttled: Retryable; refused: Final; no definite answer: Unanswered

Every message says in one sentence what happened and, where a person must act, what to do.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3
import urllib3.exceptions as failures

from ebbtide import typed
from ebbtide.adapters.kube.access import Access, open_access
from ebbtide.adapters.kube.wire import Struct, WireBudget, WireClaim, WireNode, WirePod, WireVolume
from ebbtide.errors import UNREADABLE, EbbtideError, Final, Retryable, Throttled, Unanswered, Usage
from ebbtide.outgoing import guarded
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


class ApiError(Exception):
    """An answer of the API server other than success. The caller translates it."""

    def __init__(self, code: int, status: StatusBody) -> None:
        super().__init__(redact(f"{code} {status.message}"))
        self.code = code
        self.status = status

    @property
    def not_found(self) -> bool:
        return self.code == NOT_FOUND

    @property
    def conflict(self) -> bool:
        return self.code == CONFLICT


def read_status(body: bytes) -> StatusBody:
    try:
        return typed.decode(body, StatusBody)
    except UNREADABLE:
        return StatusBody(" ".join(body[:200].decode(errors="replace").split()))


def _refused_reading(refused: ApiError, what: str, server: str) -> EbbtideError:
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


def _refused_acting(refused: ApiError, what: str, server: str) -> EbbtideError:
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


JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
CONNECT_SECONDS = 5.0
READ_SECONDS = 25.0
SUCCESS = range(200, 300)
Query = Mapping[str, str | int]
PAGE = 500
FRESH_STARTS = 3
"""How often a list is begun again when its moment is no longer kept by the server."""

Item = TypeVar("Item")
Wire = TypeVar("Wire")


@dataclass(frozen=True, slots=True)
class Call:
    """What is asked of the API server, and how an error names it."""

    method: str
    path: str
    what: str
    body: Mapping[str, Any] | None = None
    content_type: str = JSON


class Connection:
    def __init__(self, access: Access, timeout_seconds: float = READ_SECONDS) -> None:
        self._identity = access.identity
        self._pool: urllib3.PoolManager = guarded(access.pool())
        self._host = access.host.rstrip("/")
        self._timeout_seconds = timeout_seconds
        self._renewing = threading.Lock()
        self.server = urlsplit(self._host).netloc or self._host
        self.last_date = ""
        """The server's own time, as the last answer to a read gave it."""

    def get(self, path: str, what: str, query: Query | None = None) -> bytes:
        """Read; errors of `ebbtide.errors` as for reading."""
        try:
            return self.try_get(path, what, query)
        except ApiError as refused:
            raise self.refused_reading(refused, what) from refused

    def try_get(self, path: str, what: str, query: Query | None = None, accept: str = JSON) -> bytes:
        """Read; the caller handles an `ApiError`. `accept` may ask for another
        form of the same objects, such as their metadata alone."""
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            response = self._pool.request(
                "GET",
                self._host + target,
                headers={**self._headers(), "Accept": accept},
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=self._timeout_seconds),
                retries=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise failed(error, what, self.server, acting=False) from error
        self.last_date = response.headers.get("Date", "")
        self._check(response.status, response.data)
        return response.data

    def act(self, call: Call) -> bytes:
        """Change something; errors of `ebbtide.errors` as for acting."""
        try:
            return self.try_act(call)
        except ApiError as refused:
            raise self.refused_acting(refused, call.what) from refused

    def try_act(self, call: Call, timeout_seconds: float | None = None) -> bytes:
        """Change something; the caller handles an `ApiError`."""
        try:
            response = self._pool.request(
                call.method,
                self._host + call.path,
                headers={**self._headers(), "Content-Type": call.content_type},
                body=json.dumps(call.body).encode() if call.body is not None else None,
                timeout=urllib3.Timeout(
                    connect=CONNECT_SECONDS, read=timeout_seconds or self._timeout_seconds
                ),
                retries=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise failed(error, call.what, self.server, acting=True) from error
        self._check(response.status, response.data)
        return response.data

    @contextmanager
    def stream(
        self, path: str, query: Query, quiet_seconds: float
    ) -> Iterator[urllib3.response.BaseHTTPResponse]:
        """An answer that continues; it ends with an error when nothing comes for `quiet_seconds`."""
        response = self._pool.request(
            "GET",
            f"{self._host}{path}?{urlencode(query)}",
            headers=self._headers(),
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=quiet_seconds),
            retries=False,
            preload_content=False,
        )
        try:
            if response.status not in SUCCESS:
                self._check(response.status, response.read())
            yield response
        finally:
            response.close()

    def refused_reading(self, refused: ApiError, what: str) -> EbbtideError:
        """The error of a read that the server refused."""
        return _refused_reading(refused, what, self.server)

    def refused_acting(self, refused: ApiError, what: str) -> EbbtideError:
        """The error of a change that the server refused."""
        return _refused_acting(refused, what, self.server)

    def close(self) -> None:
        self._pool.clear()

    def _headers(self) -> dict[str, str]:
        """Asked for each call: an exec plugin or a mounted token may have renewed it."""
        with self._renewing:
            return {"Accept": JSON, "User-Agent": "ebbtide", **self._identity.headers()}

    def _check(self, status: int, body: bytes) -> None:
        if status == UNAUTHORISED:
            with self._renewing:
                self._identity.forget()  # the next call asks for another
        if status not in SUCCESS:
            raise ApiError(status, read_status(body))


def connect(
    kubeconfig: Path | None = None, context: str | None = None, timeout_seconds: float = READ_SECONDS
) -> Connection:
    """By a kubeconfig where one is named or found, otherwise as a pod of the cluster itself."""
    return Connection(open_access(kubeconfig, context), timeout_seconds)


class ListMeta(Struct, frozen=True):
    resource_version: str = ""
    next: str = msgspec.field(default="", name="continue")


class Page(Struct, Generic[Wire], frozen=True):
    metadata: ListMeta
    items: list[Wire] | None = None


@dataclass(frozen=True, slots=True)
class Resource(Generic[Wire]):
    what: str
    path: str
    wire: type[Wire]
    accept: str = JSON
    """The form in which the server should answer."""


NODES = Resource("nodes", "/api/v1/nodes", WireNode)
PODS = Resource("pods", "/api/v1/pods", WirePod)
BUDGETS = Resource("disruption budgets", "/apis/policy/v1/poddisruptionbudgets", WireBudget)
CLAIMS = Resource("volume claims", "/api/v1/persistentvolumeclaims", WireClaim)
VOLUMES = Resource("volumes", "/api/v1/persistentvolumes", WireVolume)


def read_list(
    connection: Connection,
    resource: Resource[Wire],
    read: Callable[[Wire], Item],
    query: Query | None = None,
) -> tuple[list[Item], str]:
    """All items, and the moment (resource version) that they are of."""
    decoder = typed.decoder(Page[resource.wire])  # type: ignore[name-defined]
    for _ in range(FRESH_STARTS):
        try:
            return _read_pages(connection, resource, decoder, read, dict(query or {}))
        except ApiError as refused:
            if refused.code != GONE:
                raise connection.refused_reading(refused, resource.what) from refused
    raise Retryable(f"{resource.what} change faster than {connection.server} lets them be listed")


def _read_pages(
    connection: Connection,
    resource: Resource[Wire],
    decoder: typed.Decoder[Page[Wire]],
    read: Callable[[Wire], Item],
    query: dict[str, str | int],
) -> tuple[list[Item], str]:
    found: list[Item] = []
    query["limit"] = PAGE
    while True:
        body = connection.try_get(resource.path, resource.what, query, resource.accept)
        try:
            page = decoder.decode(body)
            found.extend(map(read, page.items or ()))
        except (*UNREADABLE, ValueError) as cause:
            says = f"{connection.server} answered something that is not a list of {resource.what} ({cause})"
            raise Retryable(says) from cause
        if not page.metadata.next:
            return found, page.metadata.resource_version
        query["continue"] = page.metadata.next
