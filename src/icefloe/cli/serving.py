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
        str | None, typer.Option(help="Where pages and REST are (default: server.listen, else localhost:8484).")
    ] = None,
    no_listen: Annotated[bool, typer.Option("--no-listen", help="Neither pages nor REST.")] = False,
) -> None:
    """Run scheduler, worker, pages and REST until told to end (Ctrl-C or SIGTERM: running steps are finished or handed over)."""
    from icefloe.service.serving import Service  # PyIceberg takes a second to import

    log_without_secrets()
    logging.getLogger("icefloe").setLevel(logging.INFO)
    with Client() as client:
        log_without_secrets(client.config.logs.format)
        address = listen or client.config.server.listen
        service = Service(client, slots=slots)
        if no_listen or address == "off":
            _until_told(service.stop)
            _tell(client, service)
            service.run()
        else:
            _serve_pages(client, service, address)
    note("ended")


def _serve_pages(client: Client, service: Service, address: str | None) -> None:
    from icefloe.server.listening import Listener  # FastAPI takes a while to import
    from icefloe.service.access import Access

    listener = Listener(client, address, service)

    def stop() -> None:
        listener.stop()
        service.stop()

    _until_told(stop)
    _tell(client, service)
    try:
        listener.start(on_failure=service.stop)
        note(f"REST on {listener.address}/api/v1, token in {listener.token_at}")
        note(f"pages: {listener.pages}/login?key={Access(client.database).make_link()}")
        note("this link opens them once, within ten minutes; another one: icefloe tokens link")
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
