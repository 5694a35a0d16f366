"""The bad network of `make chaos-real` is as bad as it says, and good when it is asked to be."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests.chaos_real.network import Fault, network

REQUEST = b"r" * 1000


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that answers with what it was sent."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=answer, args=(client,), daemon=True).start()

    def answer(client: socket.socket) -> None:
        with client, suppress(OSError):
            while data := client.recv(65536):
                client.sendall(data)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


def ask(port: int) -> str:
    """How one exchange over a connection of its own ends: whole, half, or empty."""
    got = b""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(REQUEST)
        while len(got) < len(REQUEST) and (data := connection.recv(65536)):
            got += data
    return "whole" if got == REQUEST else "half" if got else "empty"


def test_answers_are_lost_and_halved_until_it_is_calm(echo: int) -> None:
    with network(3, {"echo": f"127.0.0.1:{echo}"}, badness=5) as between, ThreadPoolExecutor(40) as callers:
        ports = [between.ports["echo"]] * 400
        assert set(callers.map(ask, ports)) == {"whole", "half", "empty"}
        between.calm()
        counts = between.counts()
        assert {Fault.REFUSED, Fault.DELAYED, Fault.HALVED} <= counts.keys()
        assert set(callers.map(ask, ports)) == {"whole"}
        assert between.counts() == counts
