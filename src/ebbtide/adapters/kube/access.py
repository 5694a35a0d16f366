"""How an API server is reached and who we are there: from a kubeconfig as kubectl reads it, or as a pod."""

from __future__ import annotations

import os
import ssl
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
import yaml

from ebbtide.adapters.kube.identity import (
    Credentials,
    Fixed,
    OpenId,
    Plugin,
    TokenFile,
    basic,
    bearer,
    use_certificate,
)
from ebbtide.errors import ConfigError
from ebbtide.extras import how_to_add_library

IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CONNECTIONS = 16
MALFORMED = (OSError, ValueError, TypeError, AttributeError, KeyError, yaml.YAMLError)
"""What reading a kubeconfig raises whose parts are not what they should be."""


@dataclass(frozen=True, slots=True)
class Access:
    host: str
    identity: Credentials = field(default_factory=Fixed)
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    """For which the certificate must be, where that is not the host."""
    proxy: str = ""

    def pool(self) -> urllib3.PoolManager:
        more: dict[str, Any] = {"maxsize": CONNECTIONS, "retries": False}
        if self.tls is not None:
            more["ssl_context"] = self.tls
        if self.server_name:
            more["server_hostname"] = self.server_name
        if self.proxy.startswith("socks"):
            return _socks(self.proxy, more)
        return urllib3.ProxyManager(self.proxy, **more) if self.proxy else urllib3.PoolManager(**more)


@dataclass(frozen=True, slots=True)
class Entry:
    """A part of a kubeconfig with the folder that its paths are relative to."""

    keys: Mapping[str, Any]
    folder: Path

    def text(self, key: str) -> str:
        return str(self.keys.get(key) or "")

    def path(self, key: str) -> Path | None:
        return self.folder / Path(self.text(key)).expanduser() if self.text(key) else None

    def content(self, key: str) -> str:
        """Of the key `KEY-data`, or of the file that the key names."""
        if inline := self.text(f"{key}-data"):
            return b64decode("".join(inline.split()), validate=True).decode()
        path = self.path(key)
        return path.read_text(encoding="utf-8") if path else ""


def open_access(kubeconfig: Path | None, context: str | None) -> Access:
    """By the kubeconfig that is named, else as kubectl finds one, else as a pod of the cluster."""
    files = [kubeconfig] if kubeconfig else default_kubeconfigs()
    try:
        if not files and os.environ.get(IN_CLUSTER):
            return in_cluster(os.environ)
        if not files:
            raise ConfigError(
                "no cluster found: there is no kubeconfig; nothing was touched. Set KUBECONFIG or "
                "cluster.kubeconfig to one."
            )
        return of_files(files, context)
    except MALFORMED as cause:
        where = " and ".join(map(str, files)) or str(ACCOUNT)
        why = " ".join(str(cause).split())
        says = f"no cluster found in {where} ({why}): give a complete kubeconfig"
        raise ConfigError(says) from cause


def default_kubeconfigs() -> list[Path]:
    named = [Path(one) for one in os.environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    usual = Path.home() / ".kube" / "config"
    there = [path for path in named if path.exists()]
    return there or named[:1] or ([usual] if usual.exists() else [])


def in_cluster(environ: Mapping[str, str], account: Path = ACCOUNT) -> Access:
    host = environ[IN_CLUSTER]
    shown = f"[{host}]" if ":" in host else host
    tls = tls_context((account / "ca.crt").read_text(encoding="utf-8"))
    (account / "token").read_text(encoding="utf-8")  # said now where there is none
    return Access(f"https://{shown}:{environ['KUBERNETES_SERVICE_PORT']}", TokenFile(account / "token"), tls)


def of_files(files: Sequence[Path], context: str | None) -> Access:
    """Where several files have an entry of the same name, the first counts."""
    documents = [(_document(path), path.resolve().parent) for path in files]
    current = next((str(told["current-context"]) for told, _ in documents if told.get("current-context")), "")
    chosen = _entry(documents, "context", context or current)
    cluster = _entry(documents, "cluster", chosen.text("cluster"))
    if cluster.keys.get("insecure-skip-tls-verify"):
        # A man in the middle would get the token, and with it every node.
        raise ConfigError(
            f"the kubeconfig {files[0]} turns the check of the server's certificate off "
            "(insecure-skip-tls-verify); nothing was touched. Name its certificate-authority instead."
        )
    user = _entry(documents, "user", chosen.text("user")) if chosen.text("user") else Entry({}, chosen.folder)
    host = str(cluster.keys["server"]).rstrip("/")
    tls = tls_context(cluster.content("certificate-authority")) if host.startswith("https") else None
    if tls is not None and (certificate := user.content("client-certificate")):
        use_certificate(tls, certificate, user.content("client-key"))
    return Access(
        host,
        identity_of(user, cluster, tls),
        tls,
        cluster.text("tls-server-name"),
        cluster.text("proxy-url") or proxy_for(host),
    )


def identity_of(user: Entry, cluster: Entry, tls: ssl.SSLContext | None) -> Credentials:
    provider = user.keys.get("auth-provider")
    if provider:
        if provider["name"] != "oidc":
            raise ConfigError(
                f"the auth-provider {provider['name']} of the kubeconfig is not supported, as in kubectl "
                "since 1.26; nothing was touched. Use the exec plugin of the cloud."
            )
        own = Entry(provider.get("config") or {}, user.folder)
        return OpenId(own.keys, tls_context(own.content("idp-certificate-authority")))
    if path := user.path("tokenFile"):
        return TokenFile(path)
    if user.text("token"):
        return Fixed(bearer(user.text("token")))
    if plugin := user.keys.get("exec"):
        return Plugin(plugin, user.folder, cluster.keys, tls)
    if user.text("username"):
        return Fixed(basic(user.text("username"), user.text("password")))
    return Fixed()


def tls_context(authority: str = "") -> ssl.SSLContext:
    """Checks certificate and name. Not more strictly than kubectl: the authorities of older clusters lack
    extensions that Python asks for since 3.13."""
    context = ssl.create_default_context(cadata=authority or None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def proxy_for(host: str) -> str:
    """As the environment says, asked once: looking it up again with every call was a third of its cost."""
    parts = urlsplit(host)
    if proxy_bypass(parts.netloc):
        return ""
    found = getproxies()
    return found.get(parts.scheme) or found.get("all", "")


def _socks(proxy: str, more: dict[str, Any]) -> urllib3.PoolManager:
    try:
        from urllib3.contrib.socks import SOCKSProxyManager
    except ImportError as error:
        raise ConfigError(
            "the SOCKS proxy of the kubeconfig needs PySocks; nothing was touched. "
            f"Run: {how_to_add_library('pysocks')}"
        ) from error
    return SOCKSProxyManager(proxy, **more)


def _document(path: Path) -> Mapping[str, Any]:
    told = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(told, dict):
        raise ValueError("it holds no kubeconfig")
    return told


def _entry(documents: Sequence[tuple[Mapping[str, Any], Path]], kind: str, name: str) -> Entry:
    for told, folder in documents:
        for one in told.get(f"{kind}s") or ():
            if one["name"] == name:
                return Entry(dict(one[kind] or {}), folder)
    raise ValueError(f"there is no {kind} {name!r}" if name else f"it names no {kind}")
