"""What went wrong with a call to the API server, as the error that its caller acts on."""

from __future__ import annotations

import ssl

import pytest
import urllib3
import urllib3.connection
import urllib3.exceptions as failures

from ebbtide.adapters.kube.connection import (
    ApiError,
    Call,
    Cause,
    Details,
    StatusBody,
    failed,
    read_status,
    refused_acting,
    refused_reading,
    sent,
)
from ebbtide.errors import EbbtideError, Final, Retryable, Throttled, Unanswered, Usage
from tests.unit.kube.scripted import Server, connected, refusal

POOL = urllib3.HTTPConnectionPool("api", 6443)
LINE = urllib3.connection.HTTPConnection("api", 6443)
NEVER_SENT = (
    failures.NewConnectionError(LINE, "Failed to establish a new connection: no route"),
    failures.ConnectTimeoutError(LINE, "timed out"),
    ConnectionRefusedError("refused"),
)
PERHAPS_SENT = (
    failures.ReadTimeoutError(POOL, "/x", "Read timed out."),
    failures.ProtocolError("Connection aborted.", ConnectionResetError("reset by peer")),
    failures.IncompleteRead(10, 20),
)


def certificate_error() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    return error


def version_error() -> ssl.SSLError:
    error = ssl.SSLError(1, "[SSL] wrong version number")
    error.reason = "WRONG_VERSION_NUMBER"
    return error


def refused(code: int, message: str = "no", reason: str = "") -> ApiError:
    details = Details([Cause("Other"), Cause(reason)]) if reason else None
    return ApiError(code, StatusBody(message, code=code, details=details))


@pytest.mark.parametrize(
    ("code", "expected", "says"),
    [
        (401, Usage, "api does not accept our credentials: renew the token or log in again"),
        (403, Usage, "not allowed to read pods (no): apply the RBAC rules of deploy/manifests"),
        (404, Usage, "api knows no pods: is it a Kubernetes API server of version 1.21 or later?"),
        (429, Throttled, "api asks to slow down while pods were read"),
        (410, Retryable, "pods could not be read: api answered 410 no"),
        (500, Retryable, "pods could not be read: api answered 500 no"),
    ],
)
def test_a_read_that_is_refused_says_who_must_act(code: int, expected: type[EbbtideError], says: str) -> None:
    error = refused_reading(refused(code), "pods", "api")
    assert (type(error), str(error)) == (expected, says)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (refused(401), Retryable),
        (refused(403), Final),
        (refused(403, reason="NamespaceTerminating"), Retryable),
        (refused(403, "shop is forbidden because it is being terminated"), Retryable),
        (refused(404), Final),
        (refused(409), Retryable),
        (refused(422), Final),
        (refused(429), Throttled),
        (refused(499), Final),
        (refused(500), Unanswered),
        (refused(503), Unanswered),
    ],
)
def test_a_change_that_is_refused_is_final_only_where_a_second_try_is_in_no_case_good(
    answer: ApiError, expected: type[EbbtideError]
) -> None:
    error = refused_acting(answer, "evict a", "api")
    assert type(error) is expected
    assert str(error).startswith("evict a: ")


@pytest.mark.parametrize("error", NEVER_SENT, ids=lambda error: type(error).__name__)
def test_what_was_never_sent_may_be_tried_again_whatever_it_was(error: Exception) -> None:
    for wrapped in (error, failures.MaxRetryError(POOL, "/x", error)):
        assert not sent(wrapped)
        for acting in (True, False):
            found = failed(wrapped, "evict a", "api", acting)
            assert type(found) is Retryable
            assert str(found).startswith("api cannot be reached (")


@pytest.mark.parametrize("error", PERHAPS_SENT, ids=lambda error: type(error).__name__)
def test_a_change_that_may_have_arrived_is_unanswered_and_a_read_is_done_again(error: Exception) -> None:
    for wrapped in (error, failures.MaxRetryError(POOL, "/x", error)):
        assert sent(wrapped)
        assert type(failed(wrapped, "evict a", "api", acting=True)) is Unanswered
        found = failed(wrapped, "pods", "api", acting=False)
        assert type(found) is Retryable
        assert str(found).startswith("pods: no whole answer from api (")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (certificate_error(), "the certificate of api is not to be trusted (self-signed certificate)"),
        (version_error(), "no TLS with api (WRONG_VERSION_NUMBER)"),
    ],
)
def test_tls_that_fails_is_a_matter_of_the_configuration(error: ssl.SSLError, says: str) -> None:
    for wrapped in (
        error,
        failures.SSLError(error),
        failures.MaxRetryError(POOL, "/", failures.SSLError(error)),
    ):
        assert type(failed(wrapped, "pods", "api", acting=True)) is Retryable
        found = failed(wrapped, "pods", "api", acting=False)
        assert type(found) is Usage
        assert str(found).startswith(says)


def test_an_answer_that_is_no_status_is_quoted_on_one_line_and_not_whole() -> None:
    assert read_status(b"<html>\n  Bad   Gateway") == StatusBody("<html> Bad Gateway")
    assert len(read_status(b"x" * 1000).message) == 200


def test_a_change_goes_out_once_and_its_refusal_is_translated() -> None:
    server = Server()
    server.says("PATCH /a", (200, {"done": True}), refusal(409))
    with connected(server) as connection:
        call = Call("PATCH", "/a", "patch a", {"spec": 1})
        assert connection.act(call) == b'{"done": true}'
        with pytest.raises(Retryable, match=r"patch a: .* answered 409 no"):
            connection.act(call)
    assert [body for _, body, _ in server.sent("PATCH")] == [{"spec": 1}] * 2
