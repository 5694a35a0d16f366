"""A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.

    with kube_server() as server:
        server.kubeconfig()         a kubeconfig of an administrator
        server.api                  raw requests for what a test sets up

There is no kubelet: `tests.servers.kubelets` stands in for them.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.servers.control_plane import ensure_control_plane
from tests.servers.dynamodb import free_port
from tests.servers.etcd import etcd_server
from tests.servers.kube_api import Api
from tests.servers.processes import running

ADMIN_TOKEN = "admin-of-the-tests"
NOBODY_TOKEN = "nobody-of-the-tests"
ISSUER = "https://ebbtide.test"
CONTROLLERS = (
    "deployment-controller,replicaset-controller,statefulset-controller,daemonset-controller,"
    "disruption-controller,endpointslice-controller,garbage-collector-controller,namespace-controller,"
    "serviceaccount-token-controller"
)
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Request", "resources": [{"group": "", "resources": ["pods/eviction"]}]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True)
class KubeServer:
    folder: Path
    binaries: Path
    port: int
    api: Api

    @property
    def authority(self) -> Path:
        return self.folder / "certs" / "apiserver.crt"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    def kubeconfig(self, name: str = "admin", **overrides: Any) -> Path:
        """A kubeconfig; `token`, `server` and `authority` may be others than the right ones."""
        entry = {"certificate-authority": str(overrides.get("authority", self.authority))}
        entry["server"] = overrides.get("server", f"https://127.0.0.1:{self.port}")
        user = {"token": overrides.get("token", ADMIN_TOKEN)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": entry}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test",
        }
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path

    def account_token(self, account: str, lasts_seconds: int) -> str:
        """A token of a service account (`namespace:name`) as the server itself signs them, with any end: the
        server's own way to get one (TokenRequest) makes none that lasts less than ten minutes."""
        namespace, _, name = account.partition(":")
        uid = self.api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}")["metadata"]["uid"]
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": [ISSUER],
            "sub": f"system:serviceaccount:{account}",
            "iat": now - 7200,
            "nbf": now - 7200,
            "exp": now + lasts_seconds,
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
        }
        parts = [_base64(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims)]
        key = serialization.load_pem_private_key((self.folder / "sa.key").read_bytes(), None)
        assert isinstance(key, rsa.RSAPrivateKey)
        signature = key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
        return ".".join([*parts, _base64(signature)])

    def kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.binaries / "kubectl"), f"--kubeconfig={self.kubeconfig()}", *arguments]
        cache = f"--cache-dir={self.folder / 'kubectl-cache'}"
        return subprocess.run([*command, cache], capture_output=True, text=True, timeout=60, check=False)

    def can_i(self, account: str, question: str) -> bool:
        """`kubectl auth can-i` for a service account, as `namespace:name`."""
        asked = ["auth", "can-i", f"--as=system:serviceaccount:{account}", *question.split()]
        return self.kubectl(*asked).stdout.strip() == "yes"


def _base64(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


@contextmanager
def kube_server(controllers: bool = True) -> Iterator[KubeServer]:
    binaries = ensure_control_plane(build=False)
    folder = Path(tempfile.mkdtemp(prefix="ebb-kube-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        etcd = stack.enter_context(etcd_server(folder))
        port = free_port()
        api = Api(f"https://127.0.0.1:{port}", ADMIN_TOKEN, folder / "certs" / "apiserver.crt")
        server = KubeServer(folder, binaries, port, api)
        stack.callback(server.api.close)
        command = _api_server_command(server, etcd)
        stack.enter_context(running(command, folder / "kube-apiserver.log", server.api.ready))
        if controllers:
            for command in _controller_commands(server):
                log = folder / f"{Path(command[0]).name}.log"
                stack.enter_context(running(command, log, lambda: True))
        yield server


def _api_server_command(server: KubeServer, etcd: str) -> list[str]:
    folder = server.folder
    _write_keys(folder)
    groups = f'{ADMIN_TOKEN},admin,1,"system:masters"\n{NOBODY_TOKEN},nobody,2\n'
    (folder / "tokens.csv").write_text(groups)
    (folder / "audit.yaml").write_text(yaml.safe_dump(AUDIT))
    return [
        str(server.binaries / "kube-apiserver"),
        f"--etcd-servers={etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={server.port}",
        f"--cert-dir={folder / 'certs'}",
        f"--service-account-key-file={folder / 'sa.pub'}",
        f"--service-account-signing-key-file={folder / 'sa.key'}",
        f"--service-account-issuer={ISSUER}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        "--endpoint-reconciler-type=none",
        f"--audit-policy-file={folder / 'audit.yaml'}",
        f"--audit-log-path={server.audit_log}",
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
    ]


def _controller_commands(server: KubeServer) -> list[list[str]]:
    common = [
        f"--kubeconfig={server.kubeconfig()}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]
    tokens = [
        f"--service-account-private-key-file={server.folder / 'sa.key'}",
        f"--root-ca-file={server.authority}",
    ]
    return [
        [str(server.binaries / "kube-controller-manager"), f"--controllers={CONTROLLERS}", *tokens, *common],
        [str(server.binaries / "kube-scheduler"), *common],
    ]


def _write_keys(folder: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, plain)
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "sa.key").write_bytes(private)
    (folder / "sa.pub").write_bytes(public)
