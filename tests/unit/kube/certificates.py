"""An authority with a server and a client, as a cluster has them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Signed:
    certificate: str
    key: str


class Authority:
    """Without the extensions that Python asks for since 3.13: the authorities of older clusters lack them."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the cluster")])
        own = self._begun(self._name, self._key).add_extension(
            x509.BasicConstraints(True, None), critical=True
        )
        self.certificate = _pem(own.sign(self._key, hashes.SHA256()))

    def sign(self, name: str) -> Signed:
        key = ec.generate_private_key(ec.SECP256R1())
        named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = [x509.DNSName(name), x509.IPAddress(ip_address("127.0.0.1"))]
        made = self._begun(named, key).add_extension(x509.SubjectAlternativeName(names), critical=False)
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        pem = key.private_bytes(serialization.Encoding.PEM, *form).decode()
        return Signed(_pem(made.sign(self._key, hashes.SHA256())), pem)

    def _begun(self, name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )


def _pem(made: x509.Certificate) -> str:
    return made.public_bytes(serialization.Encoding.PEM).decode()
