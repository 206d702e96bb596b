"""The client that commands speak through: this folder's project, or with ``--server`` one elsewhere."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from icefloe.cli.output import Output
from icefloe.errors import UsageError

if TYPE_CHECKING:
    from icefloe.service.client import Client
    from icefloe.service.remote import RemoteClient

SERVER_VARIABLE = "ICEFLOE_SERVER"

HERE_ONLY = {
    "init": "it makes a project in a folder",
    "demo": "it makes a project of its own, and runs Spark in it",
    "doctor": "it examines the machine it is typed on: Java, jars, disk",
    "serve": "it is the server",
    "worker": "it works on this machine",
    "db": "it works on the state database itself",
    "tokens": "who may come in is said beside the server, or on its pages",
    "sql": "it runs Spark on this machine; REST hands out metadata, not rows",
    "spark": "it is about this machine's Spark",
    "spark-conf": "it is about this machine's configuration",
}
"""Verbs that make no sense on a server elsewhere, and why."""
FILES_ONLY = ("validate", "graph", "convert", "schema")
"""Verbs that look at files alone, and ask neither project nor server."""


@dataclass(frozen=True, slots=True)
class Server:
    address: str
    token: str | None


_server: Server | None = None


def choose_server(address: str | None, token_file: Path | None, verb: str | None) -> None:
    """Before a command runs. Raises when it is one for this machine alone."""
    global _server
    _server = None
    address = address or os.environ.get(SERVER_VARIABLE, "").strip()
    if not address:
        if token_file is not None:
            raise UsageError("--token-file is for --server", hint="icefloe --server https://… --token-file FILE runs")
        return
    if verb in HERE_ONLY:
        raise UsageError(
            f"icefloe {verb} is not for a server elsewhere: {HERE_ONLY[verb]}",
            hint=f"leave out --server, or unset {SERVER_VARIABLE}; type it beside the server if it is meant there",
        )
    _server = Server(address, _read(token_file) if token_file is not None else None)


def open_client() -> Client:
    if _server is not None:
        from icefloe.service.remote import RemoteClient

        # It has the same verbs and gives the same values; a contract suite holds the two together.
        return cast("Client", RemoteClient(_server.address, _server.token))
    from icefloe.service.client import Client

    return Client()


def remote_of(client: object) -> RemoteClient | None:
    """The client, if it is one of a server elsewhere."""
    if _server is None:
        return None
    from icefloe.service.remote import RemoteClient

    return client if isinstance(client, RemoteClient) else None


def refuse_words(output: Output) -> None:
    """What a server sends of plans and changes is for programs."""
    if output is not Output.json:
        raise UsageError("a server elsewhere answers this as JSON", hint="add --output json")


def is_remote() -> bool:
    return _server is not None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the token cannot be read: {error}", where=str(file)) from error
