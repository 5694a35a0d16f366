"""A small real backend: HTTP/1.1 with WebSocket, HTTP/2, gRPC, TLS that answers by the name it is asked for,
plain TCP, and the login of a game.

Every answer holds the digest of what arrived, so a test knows that it arrived whole.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ebbtide.gate.minecraft import kick, read_opening
from tests.integration.kube.backend_http2 import grpc_served, speak_h2c
from tests.unit.gate.house import LOOPBACK

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
NAMES = ("a.example", "b.example")


@dataclass(frozen=True)
class Backend:
    ports: dict[str, int]
    authority: dict[str, str]
    """By name: the certificate in PEM."""


async def speak_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("upgrade") == "websocket":
        await _websocket(headers, reader, writer)
        return
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readline()
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    text = f"{first}\n{hashlib.sha256(body).hexdigest()}".encode()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(text), text))
    await writer.drain()
    writer.close()


async def _websocket(
    headers: dict[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    accept = hashlib.sha1((headers["sec-websocket-key"] + MAGIC).encode()).digest()
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + base64.b64encode(accept) + b"\r\n\r\n"
    )
    while header := await reader.read(2):
        length = header[1] & 0x7F
        mask = await reader.readexactly(4)
        text = bytes(byte ^ mask[place % 4] for place, byte in enumerate(await reader.readexactly(length)))
        writer.write(bytes((header[0], length)) + text)
        await writer.drain()
    writer.close()


async def speak_minecraft(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Kicks who logs in, with the digest of all that the login said."""
    said = b""
    while not (player := read_opening(said).player):
        said += await reader.read(65536)
    writer.write(kick(f"{player} {hashlib.sha256(said).hexdigest()}"))
    await writer.drain()
    writer.close()


async def speak_tcp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    digest = hashlib.sha256()
    while data := await reader.read(65536):
        digest.update(data)
    writer.write(digest.hexdigest().encode())
    writer.write_eof()
    await writer.drain()
    writer.close()


@contextmanager
def backend() -> Iterator[Backend]:
    contexts, pems = _certificates()
    found: list[Backend] = []
    loops: list[asyncio.AbstractEventLoop] = []
    ready = threading.Event()

    async def tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chosen: ssl.SSLObject = writer.get_extra_info("ssl_object")
        names = [name for name, context in contexts.items() if chosen.context is context]
        data = await reader.readexactly(1000)
        writer.write(f"{names[0]} {hashlib.sha256(data).hexdigest()}".encode())
        await writer.drain()
        writer.close()

    async def serve() -> None:
        def by_name(chosen: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
            chosen.context = contexts[name or NAMES[0]]

        outer = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        outer.sni_callback = by_name
        servers = {
            "http": await asyncio.start_server(speak_http, LOOPBACK, 0),
            "tls": await asyncio.start_server(tls, LOOPBACK, 0, ssl=outer),
            "tcp": await asyncio.start_server(speak_tcp, LOOPBACK, 0),
            "h2c": await asyncio.start_server(speak_h2c, LOOPBACK, 0),
            "shop": await asyncio.start_server(speak_http, LOOPBACK, 0),
            "game": await asyncio.start_server(speak_minecraft, LOOPBACK, 0),
        }
        ports = {name: each.sockets[0].getsockname()[1] for name, each in servers.items()}
        found.append(Backend({**ports, "grpc": grpc_port}, pems))
        loops.append(asyncio.get_running_loop())
        stop.append(asyncio.Event())
        ready.set()
        await stop[0].wait()
        for each in servers.values():
            each.close()

    stop: list[asyncio.Event] = []
    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="backend", daemon=True)
    with grpc_served() as grpc_port:
        thread.start()
        assert ready.wait(20)
        try:
            yield found[0]
        finally:
            loops[0].call_soon_threadsafe(stop[0].set)
            thread.join(10)


def _certificates() -> tuple[dict[str, ssl.SSLContext], dict[str, str]]:
    contexts, pems = {}, {}
    for name in NAMES:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(key, hashes.SHA256())
        )
        pems[name] = made.public_bytes(serialization.Encoding.PEM).decode()
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        with tempfile.NamedTemporaryFile() as file:
            Path(file.name).write_bytes(pems[name].encode() + private)
            contexts[name] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            contexts[name].load_cert_chain(file.name)
    return contexts, pems
