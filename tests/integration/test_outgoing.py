"""No configured address, name or redirect leads to a metadata service, whichever part speaks to it.

A name that points there is had by asking this process's resolver for it: `getaddrinfo` is the one thing that
a machine without that DNS cannot be made to show.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from ebbtide import outgoing
from ebbtide.adapters.clouds import aws, hetzner
from ebbtide.adapters.clouds.aws_errors import translated as translated_aws
from ebbtide.adapters.clouds.hetzner import translated as translated_hetzner
from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.prometheus.asking import Prometheus, PrometheusSource, Unknown
from ebbtide.adapters.stores.dynamodb.tables import check_tables
from ebbtide.adapters.webhooks import NotSent, post
from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.errors import AddressRefused, ConfigError, EbbtideError, Final, StoreUnusable
from ebbtide.redact import redact

METADATA = "169.254.169.254"
NAME = "innocent.example.com"


@pytest.fixture
def pointing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """`NAME` resolves to a metadata service; the list has every address that a socket was opened to."""
    real, connecting = socket.getaddrinfo, socket.socket.connect
    opened: list[str] = []

    def resolve(host: Any, *args: Any, **kw: Any) -> Any:
        return real(METADATA if host == NAME else host, *args, **kw)

    def remember(self: socket.socket, address: Any) -> None:
        opened.append(str(address[0]))
        connecting(self, address)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket.socket, "connect", remember)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "something")
    return opened


@pytest.fixture
def redirecting() -> Iterator[str]:
    """A server that sends every caller on to the name that points to a metadata service."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length", "0"))
            self.rfile.read(length)
            self.send_response(307)
            self.send_header("location", f"http://{NAME}/latest/meta-data/")
            self.send_header("content-length", "0")
            self.end_headers()

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def by_webhook(url: str, folder: Path) -> None:
    post(url, b"{}", {})


def by_prometheus(url: str, folder: Path) -> None:
    server = Prometheus(PrometheusSource(url))
    try:
        server.ask("up")
    finally:
        server.close()


def by_hetzner(url: str, folder: Path) -> None:
    with translated_hetzner("listing"):
        hetzner.make_client("token", url).servers.get_all()


def by_ec2(url: str, folder: Path) -> None:
    with translated_aws("listing"):
        aws.make_client("ec2", "eu-central-1", url).describe_instances()


def by_dynamodb(url: str, folder: Path) -> None:
    check_tables(f"dynamodb://state/logs?region=eu-central-1&endpoint={url}")


def by_kubernetes(url: str, folder: Path) -> None:
    cluster = {"name": "c", "cluster": {"server": url}}
    user = {"name": "u", "user": {"token": "secret"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {"clusters": [cluster], "users": [user], "contexts": [context], "current-context": "x"}
        )
    )
    connection = connect(kubeconfig)
    try:
        connection.get("/version", "the version")
    finally:
        connection.close()


WAYS = (by_webhook, by_prometheus, by_hetzner, by_ec2, by_dynamodb, by_kubernetes)


FORMS = (
    "169.254.169.254",
    "::ffff:169.254.169.254",
    "::169.254.169.254",
    "::ffff:0:169.254.169.254",  # translated
    "64:ff9b::169.254.169.254",  # NAT64
    "64:ff9b:1::169.254.169.254",  # NAT64 of a network of its own
    "64:ff9b:1:a9fe:a9:fe00::",  # the same, with the address after 48 bits
    "64:ff9b:1:a9:fe:a9fe::",  # 56
    "64:ff9b:1:0:a9:fea9:fe00::",  # 64
    "2001:db8:1:2::169.254.169.254",  # a prefix that only that network knows
    "2001:db8:a9fe:a9fe::",  # the same, with the address after 32 bits
    "2001:db8:1a9:fea9:fe::",  # 40
    "2001:db8:1:a9fe:a9:fe00::",  # 48
    "2001:db8:1:2a9:fe:a9fe::",  # 56
    "2001:db8:1:2:a9:fea9:fe00::",  # 64
    "2001:db8:1:2::168.63.129.16",  # Azure, by such a prefix
    "2002:a9fe:a9fe::1",  # 6to4
    "2001:0:a01:203:0:0:5601:5601",  # Teredo
    "2001:db8::5efe:169.254.1.1",  # ISATAP
    "2001:db8::200:5efe:169.254.1.1",
    "fd00:ec2::254",
    "fd00:ec2:0:0:0:0:0:fe",
    "fd20:ce::254",
    "fe80::a9fe:a9fe%eth0",
)


@pytest.mark.parametrize("address", FORMS)
def test_a_metadata_service_is_known_in_every_form_of_its_address(address: str) -> None:
    assert outgoing.forbidden(address)
    assert "metadata service" in outgoing.why_not(
        f"http://[{address}]/" if ":" in address else f"http://{address}/"
    )


@pytest.mark.parametrize(
    "address",
    [
        "2001:db8::1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::10.0.0.1",
        "::ffff:10.1.2.3",
        "::1",
        "::5efe:10.0.0.1",
        "2001:db8::169.254.1.1",  # ends like a link-local address, and is none
    ],
)
def test_other_addresses_of_ipv6_are_spoken_to(address: str) -> None:
    assert not outgoing.forbidden(address)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("url", [f"http://{NAME}", f"http://{METADATA}", "http://0xa9fea9fe"])
def test_a_name_or_number_of_a_metadata_service_is_never_spoken_to(
    way: Callable[[str, Path], None], url: str, pointing: list[str], tmp_path: Path
) -> None:
    with pytest.raises((EbbtideError, NotSent, Unknown), match="never spoken to"):
        way(url, tmp_path)
    assert METADATA not in pointing


@pytest.mark.parametrize("way", WAYS)
def test_nobody_is_led_there_by_a_redirect(
    way: Callable[[str, Path], None], redirecting: str, pointing: list[str], tmp_path: Path
) -> None:
    with suppress(EbbtideError, NotSent, Unknown):
        way(redirecting, tmp_path)
    assert pointing, "the redirecting server was asked"
    assert METADATA not in pointing


def test_the_address_that_was_judged_is_the_one_that_is_spoken_to(
    redirecting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second lookup of the same name would lead to the metadata service: there is none."""
    real = socket.getaddrinfo
    asked: list[str] = []

    def turning(host: Any, *args: Any, **kw: Any) -> Any:
        if host == NAME:
            asked.append(host)
            host = "127.0.0.1" if len(asked) == 1 else METADATA
        return real(host, *args, **kw)

    monkeypatch.setattr(socket, "getaddrinfo", turning)
    port = redirecting.rpartition(":")[2]
    pool = outgoing.guarded(urllib3.PoolManager())
    assert pool.request("GET", f"http://{NAME}:{port}/", retries=False, redirect=False).status == 307
    assert asked == [NAME]
    asked.clear()
    assert post(f"http://{NAME}:{port}/", b"{}", {}) == 307
    assert asked == [NAME]
    pool.clear()


def test_each_connection_asks_for_the_name_again_and_judges_the_answer(
    redirecting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, answers = socket.getaddrinfo, ["127.0.0.1", METADATA]

    def turning(host: Any, *args: Any, **kw: Any) -> Any:
        return real(answers.pop(0) if host == NAME else host, *args, **kw)

    monkeypatch.setattr(socket, "getaddrinfo", turning)
    pool = outgoing.guarded(urllib3.PoolManager())
    url = f"http://{NAME}:{redirecting.rpartition(':')[2]}/"
    assert pool.request("GET", url, retries=False, redirect=False).status == 307
    with pytest.raises(AddressRefused, match=METADATA):
        pool.request("GET", url, retries=False, redirect=False)
    pool.clear()


def test_where_the_first_address_of_a_name_does_not_answer_the_next_is_tried(
    redirecting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(redirecting.rpartition(":")[2])
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in ("127.0.0.9", "127.0.0.1")]
    real = socket.getaddrinfo

    def both(host: Any, *args: Any, **kw: Any) -> Any:
        return found if host == NAME else real(host, *args, **kw)

    monkeypatch.setattr(socket, "getaddrinfo", both)
    with outgoing.connected(NAME, port, False, 30.0) as made:
        assert made.getpeername() == ("127.0.0.1", port)


@pytest.mark.parametrize("name", ["metadata.google.internal", "Metadata.Goog.", "instance-data"])
def test_a_redirect_to_the_name_of_a_metadata_service_ends_before_the_name_is_looked_up(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that follows a redirect comes here with a name that no check of a URL has seen."""
    asked: list[str] = []

    def answer(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    with pytest.raises(AddressRefused):
        outgoing.connected(name, 80, False, 1.0)
    assert asked == []


def test_a_name_that_nobody_knows_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: Any, **kw: Any) -> Any:
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(Unknown, match="cannot be reached"):
        by_prometheus("http://nowhere.example.com", Path())


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fe80::1%eth0", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:42::42"),
        *("::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "::169.254.169.254"),
        *("64:ff9b::169.254.1.1", "::169.254.1.1", "::ffff:0:169.254.1.1"),
    ],
)
def test_addresses_that_hand_out_credentials_are_refused_however_they_are_written(address: str) -> None:
    assert outgoing.forbidden(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.1", "100.100.100.201", "fd00::1", "8.8.8.8"])
def test_other_addresses_are_spoken_to(address: str) -> None:
    assert not outgoing.forbidden(address)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://example.com", "http or https"),
        ("http://", "http or https"),
        ("http://[::1", "not a URL"),
        ("http://a:port", "not a URL"),
        ("http://Metadata.Google.Internal./x", "metadata service"),
        ("https://elsewhere.example.com", "not among"),
        ("https://example.com.evil.net", "not among"),
        ("https://evilexample.net", "not among"),
        ("http://0xa9fea9fe/latest", "metadata service"),
        ("http://2852039166/latest", "metadata service"),
    ],
)
def test_a_url_says_why_it_cannot_be_used(url: str, why: str) -> None:
    with pytest.raises(AddressRefused, match=why):
        outgoing.checked(url, ("hooks.example.com", "*.example.net", "example.com"))
    assert outgoing.why_not("https://a.example.net/x", ("*.example.net",)) == ""
    assert outgoing.why_not("https://HOOKS.example.com/x", ("hooks.example.com",)) == ""


WRONG = """
cluster: {kind: kubernetes}
cloud: {kind: aws}
pools: [{name: a, types: [m7i.large], zones: [z]}]
aws: {image: ami-1, endpoint: "http://169.254.169.254", queue_url: "http://169.254.169.254/q"}
metrics: {prometheus_url: "http://metadata.google.internal"}
store: {url: "dynamodb://?endpoint=http://[fd00:ec2::254]"}
api:
  notify_url: https://elsewhere.example.com/x
  webhook_secrets_file: secrets
  notify_hosts: [HOSTS]
"""


def test_the_configuration_is_refused_before_anything_is_spoken_to() -> None:
    def said(hosts: str) -> str:
        with pytest.raises(ConfigError) as refused:
            build_config(parse_document(WRONG.replace("HOSTS", hosts), "file.yaml"), {})
        return str(refused.value)

    first = said("hooks.example.com")
    for key in ("aws.endpoint", "aws.queue_url", "metrics.prometheus_url", "store.url", "api.notify_url"):
        assert f"{key}: cannot be used" in first, first
    assert "api.notify_url" not in said("'*.example.com'")


def test_one_of_the_hosts_that_are_allowed_is_enough() -> None:
    allowed = ("hooks.example.com", "*.example.net")
    for url in ("https://hooks.example.com/x", "https://a.example.net/x"):
        assert outgoing.why_not(url, allowed) == ""
    assert outgoing.why_not("https://elsewhere.example.com/x", allowed)


@pytest.fixture
def nobody() -> int:
    """A port on which nobody listens."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port: int = place.getsockname()[1]
    return port


def test_where_nobody_listens_the_error_of_the_last_address_is_told(nobody: int) -> None:
    with pytest.raises(ConnectionRefusedError):
        outgoing.connected("127.0.0.1", nobody, False, 30)
    pool = outgoing.guarded(urllib3.PoolManager())
    with pytest.raises(urllib3.exceptions.NewConnectionError):
        pool.request("GET", f"http://127.0.0.1:{nobody}/", retries=False)
    pool.clear()


def test_a_connection_that_cannot_be_encrypted_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended: list[bytes] = []

        def answer() -> None:
            caller, _ = listener.accept()
            with caller:
                caller.settimeout(30)
                caller.recv(65536)
                caller.sendall(b"this is no TLS" * 10)
                with suppress(ConnectionResetError):
                    while caller.recv(65536):
                        pass
                ended.append(b"")

        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        with pytest.raises(ssl.SSLError) as failed:
            outgoing.connected("127.0.0.1", listener.getsockname()[1], True, 30)
        answering.join(60)
        assert ended, failed.value


def test_the_keys_of_the_cloud_are_redacted_from_all_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-key-that-nobody-may-see")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-session-that-nobody-may-see")
    aws.make_client("ec2", "eu-central-1", "http://127.0.0.1:1").close()
    assert (
        redact("signed by a-key-that-nobody-may-see in a-session-that-nobody-may-see")
        == "signed by *** in ***"
    )


@pytest.mark.parametrize(
    ("way", "kind", "says"),
    [(by_ec2, Final, "correct the aws section"), (by_dynamodb, StoreUnusable, "correct store.url")],
)
def test_an_address_that_was_refused_is_not_tried_again_but_to_be_corrected(
    way: Callable[[str, Path], None], kind: type[EbbtideError], says: str, pointing: list[str], tmp_path: Path
) -> None:
    with pytest.raises(kind, match=says):
        way(f"http://{METADATA}", tmp_path)
