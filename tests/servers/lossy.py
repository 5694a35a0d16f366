"""A forwarder on loopback that carries a request out and then loses the reply, as a network does.

Armed with some bytes, it waits for a request that contains them, lets the server carry it out, and cuts
the connection instead of passing the answer on. Only then has the caller no way to know.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class LossyForwarder:
    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._armed: list[bytes] = []

    def lose_reply_to(self, *requests: bytes) -> None:
        with self._lock:
            self._armed = list(requests)

    @property
    def still_to_lose(self) -> int:
        return len(self._armed)

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def stop(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _forward(self, client: socket.socket) -> None:
        server = self._connect()
        cut = threading.Event()
        back = threading.Thread(target=self._carry_back, args=(server, client, cut), daemon=True)
        back.start()
        with suppress(OSError):
            while data := client.recv(65536):
                if self._is_armed_for(data):
                    cut.set()
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        back.join()
        client.close()
        server.close()

    def _carry_back(self, server: socket.socket, client: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if cut.is_set():
                    break
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def _is_armed_for(self, data: bytes) -> bool:
        with self._lock:
            if self._armed and self._armed[0] in data:
                del self._armed[0]
                return True
            return False


@contextmanager
def lossy_forwarder(connect: Callable[[], socket.socket]) -> Iterator[LossyForwarder]:
    forwarder = LossyForwarder(connect)
    thread = threading.Thread(target=forwarder.serve, daemon=True)
    thread.start()
    try:
        yield forwarder
    finally:
        forwarder.stop()
        thread.join(5)


def to_port(port: int) -> Callable[[], socket.socket]:
    return lambda: socket.create_connection(("127.0.0.1", port), timeout=30)


def to_unix(path: str) -> Callable[[], socket.socket]:
    def connect() -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        return connection

    return connect
