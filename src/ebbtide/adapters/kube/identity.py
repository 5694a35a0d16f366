"""Who we are for an API server: a token, a file that holds one, a plugin of kubectl, or OpenID Connect.

Each is asked before every call, so what was renewed is used at once. What a server refused is forgotten, so
the next call asks again.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import tempfile
import time
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

import urllib3

from ebbtide.errors import ConfigError, Retryable
from ebbtide.outgoing import guarded
from ebbtide.redact import keep

FILE_SECONDS = 60.0
"""The kubelet replaces a pod's token long before it expires; it is read again this often."""
EARLY_SECONDS = 60.0
"""A token is renewed this long before its end: clocks differ, and a call takes time."""
PLUGIN_SECONDS = 60.0
IDP_SECONDS = 20.0
Headers = Mapping[str, str]


class Credentials(Protocol):
    def headers(self) -> Headers:
        """What a call must carry. `Retryable` if that may work later, else `ConfigError`."""

    def forget(self) -> None:
        """The server refused it."""


def bearer(token: str) -> Headers:
    return {"Authorization": f"Bearer {keep(token)}"} if token else {}


def basic(name: str, password: str) -> Headers:
    return {"Authorization": f"Basic {keep(b64encode(f'{name}:{password}'.encode()).decode())}"}


@dataclass(frozen=True, slots=True)
class Fixed:
    carried: Headers = field(default_factory=dict)

    def headers(self) -> Headers:
        return self.carried

    def forget(self) -> None:
        """There is no other."""


class TokenFile:
    def __init__(self, path: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._path, self._now = path, now
        self._carried: Headers = {}
        self._until = 0.0

    def headers(self) -> Headers:
        if not self._carried or self._now() >= self._until:
            try:
                token = self._path.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                if self._carried:
                    return self._carried  # it may be in the middle of being replaced
                raise Retryable(f"the token of the cluster cannot be read from {self._path}") from error
            self._carried, self._until = bearer(token), self._now() + FILE_SECONDS
        return self._carried

    def forget(self) -> None:
        self._carried = {}


class Plugin:
    """A command that prints an ExecCredential: `aws eks get-token`, kubelogin, a cloud's own."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        folder: Path,
        cluster: Mapping[str, Any],
        tls: ssl.SSLContext | None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._version = str(spec["apiVersion"])
        command = str(spec["command"])
        self._command = [
            str(folder / command) if "/" in command else command,
            *map(str, spec.get("args") or ()),
        ]
        self._environ = {str(one["name"]): str(one["value"]) for one in spec.get("env") or ()}
        self._cluster = cluster if spec.get("provideClusterInfo") else None
        self._hint = " ".join(str(spec.get("installHint") or "").split())
        self._tls, self._now = tls, now
        self._carried: Headers | None = None
        self._until: float | None = None

    def headers(self) -> Headers:
        if self._carried is None or (self._until is not None and self._now() >= self._until):
            self._carried, self._until = self._ask()
        return self._carried

    def forget(self) -> None:
        self._carried = None

    def _ask(self) -> tuple[Headers, float | None]:
        try:
            told = json.loads(self._run())
            if told["apiVersion"] != self._version:
                raise ConfigError(f"{self._named} answers in {told['apiVersion']}, not in {self._version}")
            status = told["status"]
            token, certificate = status.get("token"), status.get("clientCertificateData")
            if certificate and self._tls is not None:
                use_certificate(self._tls, certificate, status["clientKeyData"])
            if not token and not certificate:
                raise ConfigError(f"{self._named} gave neither a token nor a certificate")
            return bearer(str(token or "")), _end(status.get("expirationTimestamp"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{self._named} printed no ExecCredential that can be read") from error

    def _run(self) -> str:
        spec: dict[str, Any] = {"interactive": False}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        asked = {"apiVersion": self._version, "kind": "ExecCredential", "spec": spec}
        try:
            done = subprocess.run(
                self._command,
                env={**os.environ, **self._environ, "KUBERNETES_EXEC_INFO": json.dumps(asked)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PLUGIN_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Retryable(f"{self._named} did not end within {PLUGIN_SECONDS:.0f} s") from error
        except OSError as error:
            hint = f" {self._hint}" if self._hint else " Install it, or use another context."
            raise ConfigError(f"{self._named} cannot be run ({error.strerror}).{hint}") from error
        if done.returncode:
            why = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            raise Retryable(f"{self._named} gave no credentials: {why}")
        return done.stdout

    @property
    def _named(self) -> str:
        return f"the plugin {self._command[0]} of the kubeconfig"


class OpenId:
    """The auth-provider `oidc`: the token in the kubeconfig, renewed in memory while the process runs."""

    def __init__(
        self, config: Mapping[str, Any], tls: ssl.SSLContext, now: Callable[[], float] = time.time
    ) -> None:
        self._config, self._tls, self._now = dict(config), tls, now
        self._token = str(config.get("id-token") or "")
        self._refresh = keep(str(config.get("refresh-token") or ""))

    def headers(self) -> Headers:
        if not self._token or self._now() >= expires_at(self._token) - EARLY_SECONDS:
            self._renew()
        return bearer(self._token)

    def forget(self) -> None:
        self._token = ""

    def _renew(self) -> None:
        issuer = str(self._config.get("idp-issuer-url") or "").rstrip("/")
        if not issuer or not self._refresh:
            raise ConfigError(
                "the OpenID token of the kubeconfig has expired, and nothing there renews it: log in again"
            )
        pool = guarded(urllib3.PoolManager(ssl_context=self._tls, retries=False))
        name, secret = (str(self._config.get(key) or "") for key in ("client-id", "client-secret"))
        try:
            found = _answer(
                pool.request("GET", f"{issuer}/.well-known/openid-configuration", timeout=IDP_SECONDS)
            )
            told = _answer(
                pool.request(
                    "POST",
                    found["token_endpoint"],
                    body=urlencode({"grant_type": "refresh_token", "refresh_token": self._refresh}),
                    headers={**basic(name, secret), "Content-Type": "application/x-www-form-urlencoded"},
                    timeout=IDP_SECONDS,
                )
            )
            self._token = str(told["id_token"])
            self._refresh = keep(str(told.get("refresh_token") or self._refresh))
        except (urllib3.exceptions.HTTPError, OSError, ValueError, KeyError, TypeError) as error:
            raise Retryable(
                f"{issuer} did not renew the OpenID token of the kubeconfig: log in again if it stays"
            ) from error
        finally:
            pool.clear()


def expires_at(token: str) -> float:
    """The end of a JWT; 0 where it says none or is none, so it is renewed first."""
    try:
        body = token.split(".")[1]
        return float(json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return 0.0


def use_certificate(tls: ssl.SSLContext, certificate: str, key: str) -> None:
    """OpenSSL takes them from files alone. These are readable for us only, and gone when it has them."""
    with tempfile.TemporaryDirectory(prefix="ebbtide-") as folder:
        path = Path(folder) / "client.pem"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{certificate.strip()}\n{key.strip()}\n")
        tls.load_cert_chain(path)


def _answer(response: urllib3.BaseHTTPResponse) -> Any:
    if response.status != HTTPStatus.OK:
        raise ValueError(response.status)
    return json.loads(response.data)


def _end(told: object) -> float | None:
    return datetime.fromisoformat(str(told)).timestamp() - EARLY_SECONDS if told else None
