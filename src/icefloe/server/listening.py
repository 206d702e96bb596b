"""The address and the thread that answers there.

The address is taken before anything else starts, so that a port in use is an error at once. Beyond this machine it listens only
with TLS, or when told in so many words that something in front of it takes care of that.
"""

from __future__ import annotations

import errno
import ipaddress
import json
import logging
import os
import socket
import threading
from collections.abc import Callable

import uvicorn

from icefloe import suppressed
from icefloe.config import Config, ServerSettings
from icefloe.errors import IcefloeError, UsageError
from icefloe.server.access import token_of
from icefloe.server.application import make_application
from icefloe.server.changes import ChangeFeed
from icefloe.service.client import Client
from icefloe.service.metrics import Metrics
from icefloe.service.serving import Service

LOG = logging.getLogger("icefloe.server")
MOST_AT_ONCE = 400
DEFAULT_PORT = 8484
GRACE_SECONDS = 5


class ListenError(UsageError):
    """The address cannot be listened on."""

    code = "server.listen"


class Listener:
    """``address`` and ``token_at`` are for people. ``start`` returns at once; ``stop`` from any thread or a signal handler.

    ``listen`` None: localhost:8484, or a free port when something else listens there.
    """

    def __init__(self, client: Client, listen: str | None = None, service: Service | None = None) -> None:
        settings = client.config.server
        token, self.token_at = token_of(client.config)
        certificate, key = _tls_files(client.config)
        self._config = client.config
        self._socket = _bind(listen, settings) if listen is not None else _bind_default(settings)
        host, port = self._socket.getsockname()[:2]
        scheme = "https" if certificate else "http"
        self.address = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
        self.pages = settings.url or f"{scheme}://{_name_for_people(host)}:{port}"
        """Where people open the pages."""
        application = make_application(client, token, listens_on=host, service=service)
        self._changes: ChangeFeed = application.state.changes
        self._metrics: Metrics = application.state.metrics
        config = uvicorn.Config(
            application,
            http="h11",  # it bounds the size of headers
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            limit_concurrency=MOST_AT_ONCE,
            timeout_graceful_shutdown=GRACE_SECONDS,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        try:
            config.load()
        except OSError as error:  # among them ssl.SSLError
            self._socket.close()
            raise ListenError(f"TLS cannot be set up: {error}", where="[server] certificate, key") from error
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None
        self._on_end: Callable[[], None] = lambda: None
        self.failure: BaseException | None = None

    def start(self, on_failure: Callable[[], None]) -> None:
        """``on_failure`` is called, in the listener's thread, when it ends without having been stopped."""
        self._on_end = on_failure
        self._leave_address()
        with suppressed.errors("server.metrics", IcefloeError):  # then they count from the first scrape on
            self._metrics.begin()
        self._thread = threading.Thread(target=self._run, name="icefloe-server")
        self._thread.start()

    def stop(self) -> None:
        """Takes no more requests; those it has are answered, and streams end."""
        self._server.should_exit = True
        self._changes.end_streams()

    def close(self) -> None:
        """Stop, and wait until it has ended."""
        self.stop()
        if self._thread is not None:
            self._thread.join()
            self._take_address_back()
        self._changes.close()
        self._socket.close()

    def _leave_address(self) -> None:
        """So that other commands of this project can print addresses that open."""
        file = self._config.address_file
        draft = file.with_name(f"{file.name}.{os.getpid()}")
        with suppressed.errors("server.address_file", OSError, where=str(file)):
            left = {"address": self.pages, "pid": os.getpid(), "host": socket.gethostname()}
            draft.write_text(json.dumps(left), encoding="utf-8")
            draft.replace(file)

    def _take_address_back(self) -> None:
        file = self._config.address_file
        with suppressed.errors("server.address_file", OSError, ValueError, where=str(file)):
            if json.loads(file.read_text(encoding="utf-8")).get("pid") == os.getpid():
                file.unlink()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except BaseException as error:
            self.failure = error
        if not self._server.should_exit:
            LOG.error("the server on %s ended by itself", self.address)
            self._on_end()


def _name_for_people(host: str) -> str:
    if ipaddress.ip_address(host).is_loopback:
        return "localhost"
    if ipaddress.ip_address(host).is_unspecified:
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def _bind_default(settings: ServerSettings) -> socket.socket:
    """The usual port; a free one when something else listens there, as another project's server."""
    try:
        return _bind(f"127.0.0.1:{DEFAULT_PORT}", settings)
    except ListenError as error:
        if not isinstance(error.__cause__, OSError) or error.__cause__.errno != errno.EADDRINUSE:
            raise
        LOG.warning("port %d is taken by another program: a free one is used", DEFAULT_PORT)
        return _bind("127.0.0.1:0", settings)


def _bind(listen: str, settings: ServerSettings) -> socket.socket:
    host, port = _parts(listen)
    try:
        family, _, _, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )[0]
    except (OSError, UnicodeError) as error:
        raise ListenError(f"there is no host {host!r}: {error}", where=listen) from error
    if not (ipaddress.ip_address(str(place[0])).is_loopback or settings.certificate or settings.allow_plain_http):
        raise ListenError(
            f"{place[0]} can be reached from other machines, and the token would go over the wire as plain text",
            where=listen,
            hint="set [server] certificate and key for TLS, or allow_plain_http = true behind a proxy that has it",
        )
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.listen(128)  # now, not when the thread runs: a port that is taken shows here
    except OSError as error:
        made.close()
        raise ListenError(
            f"cannot be listened on: {error.strerror}",
            where=listen,
            hint="another icefloe serve may listen there; choose another port: icefloe serve --listen HOST:PORT",
        ) from error
    return made


def _parts(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or (":" in bare) != (bare != host) or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ListenError("is no address", where=listen, hint="write it as 127.0.0.1:8484 or [::1]:8484")
    return bare, int(port)


def _tls_files(config: Config) -> tuple[str | None, str | None]:
    settings = config.server
    if (settings.certificate is None) != (settings.key is None):
        raise ListenError("TLS needs both", where="[server] certificate, key")
    if settings.certificate is None or settings.key is None:
        return None, None
    found = [config.root / settings.certificate, config.root / settings.key]
    for file in found:
        if not file.is_file():
            raise ListenError(
                "there is no such file", where=str(file), hint="[server] certificate and key name PEM files"
            )
    return str(found[0]), str(found[1])
