"""``serve``."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from icefloe.cli.output import log_without_secrets, note
from icefloe.service.client import Client

if TYPE_CHECKING:
    from icefloe.service.serving import Service


def register(app: typer.Typer) -> None:
    app.command()(serve)


def serve(
    slots: Annotated[int | None, typer.Option(min=1, help="How many steps at once (default: engine.slots).")] = None,
    listen: Annotated[
        str | None, typer.Option(help="Also answer REST here, as 127.0.0.1:8780 (default: server.listen, else not).")
    ] = None,
) -> None:
    """Run scheduler and worker until told to end (Ctrl-C or SIGTERM: running steps are finished or handed over)."""
    from icefloe.service.serving import Service  # PyIceberg takes a second to import

    log_without_secrets()
    logging.getLogger("icefloe").setLevel(logging.INFO)
    with Client() as client:
        address = listen if listen is not None else client.config.server.listen
        service = Service(client, slots=slots)
        if address:
            _serve_with_rest(client, service, address)
        else:
            _until_told(service.stop)
            _tell(client, service)
            service.run()
    note("ended")


def _serve_with_rest(client: Client, service: Service, address: str) -> None:
    from icefloe.server.listening import Listener  # FastAPI takes a while to import

    listener = Listener(client, address)

    def stop() -> None:
        listener.stop()
        service.stop()

    _until_told(stop)
    _tell(client, service)
    try:
        listener.start(on_failure=service.stop)
        note(f"REST on {listener.address}/api/v1, token in {listener.token_at}")
        service.run()
    finally:
        listener.close()
    if listener.failure is not None:
        raise listener.failure


def _until_told(stop: Callable[[], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())


def _tell(client: Client, service: Service) -> None:
    note(f"scheduler {service.scheduler.id} and worker {service.worker.id} on {client.database.label}")
