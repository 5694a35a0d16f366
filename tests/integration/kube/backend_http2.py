"""HTTP/2 without TLS, and gRPC: real servers of both, and clients for the tests."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded

from tests.unit.gate.house import LOOPBACK

METHOD = "/ebbtide.Test/Digest"
READ = 65_536


async def speak_h2c(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers each request with the digest of its body."""
    wire = H2Connection(H2Configuration(client_side=False))
    wire.initiate_connection()
    digests: dict[int, Any] = {}
    while data := await reader.read(READ):
        for event in wire.receive_data(data):
            if isinstance(event, DataReceived):
                digests.setdefault(event.stream_id, hashlib.sha256()).update(event.data)
                wire.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded):
                digest = digests.pop(event.stream_id, hashlib.sha256()).hexdigest()
                wire.send_headers(event.stream_id, [(":status", "200")])
                wire.send_data(event.stream_id, digest.encode(), end_stream=True)
        writer.write(wire.data_to_send())
        await writer.drain()
    writer.close()


def post_by_h2c(client: socket.socket, body: bytes) -> bytes:
    """One POST of a client that knows that the server speaks HTTP/2."""
    wire = H2Connection()
    wire.initiate_connection()
    stream = wire.get_next_available_stream_id()
    head = [(":method", "POST"), (":path", "/up"), (":scheme", "http"), (":authority", "web")]
    wire.send_headers(stream, head)
    answer, sent, ended = b"", 0, False
    while not ended:
        while sent < len(body) and (room := wire.local_flow_control_window(stream)):
            part = body[sent : sent + min(room, wire.max_outbound_frame_size)]
            sent += len(part)
            wire.send_data(stream, part, end_stream=sent == len(body))
        client.sendall(wire.data_to_send())
        data = client.recv(READ)
        if not data:
            raise ConnectionResetError("the connection ended before the answer did")
        for event in wire.receive_data(data):
            if isinstance(event, DataReceived):
                answer += event.data
            ended = ended or isinstance(event, StreamEnded)
    return answer


@contextmanager
def grpc_served() -> Iterator[int]:
    """The port of a real gRPC server with one method that answers with the digest of its message."""

    def digest(message: bytes, context: Any) -> bytes:
        return hashlib.sha256(message).hexdigest().encode()

    handler = grpc.unary_unary_rpc_method_handler(digest)
    server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.max_receive_message_length", 2**23)])
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("ebbtide.Test", {"Digest": handler}),)
    )
    port: int = server.add_insecure_port(f"{LOOPBACK}:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def call_grpc(address: tuple[str, int], message: bytes) -> bytes:
    """One call on a new channel; it waits for the connection and is not repeated."""
    options = [("grpc.enable_retries", 0), ("grpc.max_receive_message_length", 2**23)]
    with grpc.insecure_channel(f"{address[0]}:{address[1]}", options) as channel:
        answer: bytes = channel.unary_unary(METHOD)(message, timeout=120)
        return answer
