"""Every way in which a kubeconfig says who we are, and what is said where one does not work."""

from __future__ import annotations

import base64
import json
import os
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from ebbtide.adapters.kube.access import default_kubeconfigs, in_cluster, open_access
from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.kube.identity import OpenId, Plugin, TokenFile, expires_at
from ebbtide.errors import ConfigError, Retryable, Usage
from tests.unit.kube.certificates import Authority, Signed


class Recording(ThreadingHTTPServer):
    """Keeps who asked; answers 401 to tokens that it does not take."""

    daemon_threads = True

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.seen: list[tuple[str, str]] = []
        self.refused: set[str] = set()
        self.says: dict[str, Any] = {}
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)


class Answers(BaseHTTPRequestHandler):
    server: Recording

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        told = self.headers.get("Authorization", "")
        peer = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        subject = str(peer["subject"][0][0][1]) if peer else ""
        self.server.seen.append((told, subject))
        body = json.dumps(self.server.says.get(self.path, {"gitVersion": "v1.34.1"})).encode()
        self.send_response(401 if told in self.server.refused else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Recording]:
    server = Recording(tls)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def kubeconfig(folder: Path, server: str, user: dict[str, Any], name: str = "config", **cluster: Any) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / name
    path.write_text(yaml.safe_dump(document))
    return path


def asked(path: Path, server: Recording, context: str | None = None) -> tuple[str, str]:
    connection = connect(path, context)
    try:
        connection.get("/version", "its version")
    finally:
        connection.close()
    return server.seen[-1]


def test_a_token_a_password_or_nothing_at_all(tmp_path: Path) -> None:
    with serving() as server:
        at = f"http://127.0.0.1:{server.server_port}"
        assert asked(kubeconfig(tmp_path, at, {"token": "abc"}), server)[0] == "Bearer abc"
        by_name = kubeconfig(tmp_path, at, {"username": "ann", "password": "b:c"})
        assert asked(by_name, server)[0] == f"Basic {base64.b64encode(b'ann:b:c').decode()}"
        assert asked(kubeconfig(tmp_path, at, {}), server)[0] == ""


def test_the_token_of_a_file_is_read_again_and_kept_while_it_is_being_replaced(tmp_path: Path) -> None:
    now = 0.0
    path = tmp_path / "token"
    identity = TokenFile(path, lambda: now)
    with pytest.raises(Retryable, match="cannot be read from"):
        identity.headers()
    path.write_text("first\n")
    assert identity.headers() == {"Authorization": "Bearer first"}
    path.write_text("second\n")
    assert identity.headers() == {"Authorization": "Bearer first"}
    now = 61.0
    assert identity.headers() == {"Authorization": "Bearer second"}
    path.unlink()
    now = 122.0
    assert identity.headers() == {"Authorization": "Bearer second"}
    with serving() as server:
        path.write_text("third")
        at = f"http://127.0.0.1:{server.server_port}"
        assert asked(kubeconfig(tmp_path, at, {"tokenFile": "token"}), server)[0] == "Bearer third"


def plugin(folder: Path, body: str, **more: Any) -> dict[str, Any]:
    script = folder / "plugin"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o700)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", **more}


def credential(**status: Any) -> str:
    told = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"cat <<'END'\n{json.dumps(told)}\nEND"


def test_a_plugin_is_asked_once_and_again_shortly_before_the_end_of_its_token(tmp_path: Path) -> None:
    count = "echo x >> asked.txt"
    spec = plugin(
        tmp_path,
        f'cd {tmp_path}; {count}; echo $WHO $1 >> who.txt; printf %s "$KUBERNETES_EXEC_INFO" > info.json\n'
        + credential(token="t-1", expirationTimestamp="1970-01-01T01:00:00Z"),
        args=["get-token"],
        env=[{"name": "WHO", "value": "ann"}],
        provideClusterInfo=True,
    )
    now = 0.0
    identity = Plugin(spec, tmp_path, {"server": "https://x"}, None, lambda: now)
    assert identity.headers() == {"Authorization": "Bearer t-1"}
    now = 3539.0
    identity.headers()
    assert (tmp_path / "asked.txt").read_text() == "x\n"
    now = 3540.0
    identity.headers()
    assert (tmp_path / "asked.txt").read_text() == "x\nx\n"
    assert (tmp_path / "who.txt").read_text().startswith("ann get-token\n")
    assert json.loads((tmp_path / "info.json").read_text())["spec"]["cluster"] == {"server": "https://x"}


def test_credentials_that_the_server_refuses_are_asked_for_again(tmp_path: Path) -> None:
    spec = plugin(tmp_path, f"cd {tmp_path}; echo x >> asked.txt\n" + credential(token="stale"))
    with serving() as server:
        server.refused.add("Bearer stale")
        connection = connect(kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}", {"exec": spec}))
        for _ in range(2):
            with pytest.raises(Usage, match="renew the token"):
                connection.get("/version", "its version")
        connection.close()
    assert (tmp_path / "asked.txt").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("body", "error", "says"),
    [
        ("echo 'no session: log in' >&2; exit 3", Retryable, "gave no credentials: no session: log in"),
        ("exit 4", Retryable, "exit code 4"),
        ("echo nothing", ConfigError, "printed no ExecCredential"),
        (credential(), ConfigError, "neither a token nor a certificate"),
        (credential(token="t").replace("/v1", "/v1beta1"), ConfigError, "answers in .*v1beta1"),
    ],
)
def test_a_plugin_that_fails_is_named_with_its_words(
    tmp_path: Path, body: str, error: type[Exception], says: str
) -> None:
    identity = Plugin(plugin(tmp_path, body), tmp_path, {}, None)
    with pytest.raises(error, match=says):
        identity.headers()


def test_a_plugin_that_is_not_installed_says_how_to_install_it(tmp_path: Path) -> None:
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}
    with pytest.raises(ConfigError, match=r"no-such-plugin of the kubeconfig cannot be run .*Install it"):
        Plugin(spec, tmp_path, {}, None).headers()
    hinted = Plugin({**spec, "installHint": "apt install it"}, tmp_path, {}, None)
    with pytest.raises(ConfigError, match="apt install it"):
        hinted.headers()


def server_tls(authority: Authority, folder: Path, name: str = "kubernetes") -> ssl.SSLContext:
    own = authority.sign(name)
    files = folder / "server.pem", folder / "ca.pem"
    files[0].write_text(own.certificate + own.key)
    files[1].write_text(authority.certificate)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files[1])
    tls.load_cert_chain(files[0])
    tls.verify_mode = ssl.CERT_OPTIONAL
    return tls


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_client_certificate_is_used_and_no_file_of_it_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, spare = Authority(), tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    own: Signed = authority.sign("ann")
    with serving(server_tls(authority, tmp_path)) as server:
        at = f"https://127.0.0.1:{server.server_port}"
        given = {"client-certificate-data": encoded(own.certificate), "client-key-data": encoded(own.key)}
        inline = kubeconfig(
            tmp_path, at, given, **{"certificate-authority-data": encoded(authority.certificate)}
        )
        assert asked(inline, server) == ("", "ann")
        (tmp_path / "ann.crt").write_text(own.certificate)
        (tmp_path / "ann.key").write_text(own.key)
        files = {"client-certificate": "ann.crt", "client-key": "ann.key"}
        named = kubeconfig(tmp_path, at, files, **{"certificate-authority": "ca.pem"})
        assert asked(named, server) == ("", "ann")
        made = credential(clientCertificateData=own.certificate, clientKeyData=own.key)
        by_plugin = {"exec": plugin(tmp_path, made)}
        assert (
            asked(kubeconfig(tmp_path, at, by_plugin, **{"certificate-authority": "ca.pem"}), server)[1]
            == "ann"
        )
    assert list(spare.iterdir()) == []


def test_the_name_of_the_certificate_may_be_another_and_a_wrong_authority_is_refused(tmp_path: Path) -> None:
    authority = Authority()
    with serving(server_tls(authority, tmp_path, "api.shop")) as server:
        at = f"https://localhost:{server.server_port}"
        known = {"certificate-authority-data": encoded(authority.certificate)}
        right = kubeconfig(tmp_path, at, {"token": "t"}, **known, **{"tls-server-name": "api.shop"})
        assert asked(right, server)[0] == "Bearer t"
        for wrong in (known, {"certificate-authority-data": encoded(Authority().certificate)}):
            with pytest.raises(Usage, match="certificate-authority"):
                asked(kubeconfig(tmp_path, at, {"token": "t"}, **wrong), server)


def jwt(ends: float) -> str:
    body = base64.urlsafe_b64encode(json.dumps({"exp": ends}).encode()).decode().rstrip("=")
    return f"e30.{body}.sig"


def test_an_openid_token_is_renewed_at_its_end_and_nothing_is_written(tmp_path: Path) -> None:
    with serving() as server:
        at = f"http://127.0.0.1:{server.server_port}"
        server.says["/.well-known/openid-configuration"] = {"token_endpoint": f"{at}/token"}
        server.says["/token"] = {"id_token": jwt(9000.0), "refresh_token": "next-refresh-token"}
        keys = {"idp-issuer-url": at, "client-id": "kube", "client-secret": "s", "id-token": jwt(1000.0)}
        now = 0.0
        tls = ssl.create_default_context()
        identity = OpenId({**keys, "refresh-token": "first-refresh-token"}, tls, lambda: now)
        assert identity.headers() == {"Authorization": f"Bearer {jwt(1000.0)}"}
        assert server.seen == []
        now = 950.0
        assert identity.headers() == {"Authorization": f"Bearer {jwt(9000.0)}"}
        assert server.seen[-1][0] == f"Basic {encoded('kube:s')}"
        server.says["/token"] = {"error": "invalid_grant"}
        identity.forget()
        with pytest.raises(Retryable, match="did not renew the OpenID token"):
            identity.headers()
        with pytest.raises(ConfigError, match="log in again"):
            OpenId(keys, tls, lambda: now).headers()
    assert expires_at("no token") == 0


def test_files_are_taken_together_and_the_first_of_a_name_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as server:
        at = f"http://127.0.0.1:{server.server_port}"
        first = kubeconfig(tmp_path, at, {"token": "first"}, "one")
        other = tmp_path / "two"
        other.write_text(
            kubeconfig(tmp_path, "http://127.0.0.1:9", {"token": "second"}, "two")
            .read_text()
            .replace("name: x", "name: y")
        )
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(tmp_path / "gone"), str(first), str(other)]))
        connection = connect()
        connection.get("/version", "its version")
        connection.close()
        assert server.seen[-1][0] == "Bearer first"
        assert open_access(None, "y").host == at, "the cluster c of the first file"


def test_a_pod_has_its_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ca.crt").write_text(Authority().certificate)
    (tmp_path / "token").write_text("of-the-pod")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = in_cluster(environ, tmp_path)
    assert access.host == "https://[fd00::1]:443"
    assert access.identity.headers() == {"Authorization": "Bearer of-the-pod"}
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match=r"there is no kubeconfig; nothing was touched\. Set KUBECONFIG or"):
        connect()


def test_the_proxy_of_the_kubeconfig_or_of_the_environment_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with serving() as proxy:
        at = f"http://127.0.0.1:{proxy.server_port}"
        far = "http://api.shop.invalid"
        own = kubeconfig(tmp_path, far, {"token": "t"}, **{"proxy-url": at})
        assert open_access(own, None).proxy == at
        monkeypatch.setenv("http_proxy", at)
        plain = kubeconfig(tmp_path, far, {"token": "t"})
        assert asked(plain, proxy)[0] == "Bearer t"
        monkeypatch.setenv("no_proxy", "shop.invalid")
        assert open_access(plain, None).proxy == ""


@pytest.mark.parametrize(
    ("user", "cluster", "says"),
    [
        ({"auth-provider": {"name": "gcp"}}, {}, r"auth-provider gcp .* not supported.*exec plugin"),
        (
            {"token": "t"},
            {"insecure-skip-tls-verify": True},
            "turns the check of the server's certificate off",
        ),
        ({"client-certificate": "gone.crt"}, {}, "give a complete kubeconfig"),
        ({}, {"certificate-authority-data": "%%%"}, "give a complete kubeconfig"),
        ({}, {"certificate-authority": "gone"}, "give a complete kubeconfig"),
        ({"exec": {"command": "x"}}, {}, "give a complete kubeconfig"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_is_asked(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        open_access(kubeconfig(tmp_path, "https://127.0.0.1:9", user, **cluster), None)


def test_a_context_or_a_user_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "https://127.0.0.1:9", {})
    with pytest.raises(ConfigError, match="there is no context 'nope'"):
        open_access(path, "nope")
    path.write_text(path.read_text().replace("user: u", "user: other"))
    with pytest.raises(ConfigError, match="there is no user 'other'"):
        open_access(path, None)


@pytest.mark.parametrize(
    ("named", "there", "found"),
    [
        ("", False, []),
        ("", True, [".kube/config"]),
        ("mine", False, ["mine"]),
        ("mine:other", True, ["mine"]),
    ],
)
def test_a_kubeconfig_that_is_named_counts_and_else_the_usual_one_if_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, there: bool, found: list[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", ":".join(str(tmp_path / each) for each in named.split(":") if each))
    if there:
        (tmp_path / ".kube").mkdir()
        (tmp_path / ".kube" / "config").write_text("{}")
    assert default_kubeconfigs() == [tmp_path / each for each in found]
