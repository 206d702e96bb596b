"""A door in front of a server: open, shut (connections refused) or silent (taken, and never answered)."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Door:
    """Forwards a local port to another; what it does can be changed while clients are there."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._silent = False
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def shut(self) -> None:
        """As if the server had died: no new connections, and the old ones cut."""
        # shutdown, not close alone: a thread waiting in accept() would keep the port.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._cut()

    def be_silent(self) -> None:
        """As if the server hung: new connections are taken, the old ones cut."""
        self._silent = True
        self._cut()

    def answer_again(self) -> None:
        self._silent = False
        self._cut()

    def _cut(self) -> None:
        with self._lock:
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
            self._sockets.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._sockets.append(client)
            if self._silent:
                continue
            server = socket.create_connection(self._target)
            with self._lock:
                self._sockets.append(server)
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=_pour, args=(source, sink), daemon=True).start()


def _pour(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def door(host: str, port: int) -> Iterator[Door]:
    made = Door((host, port))
    try:
        yield made
    finally:
        made.shut()
