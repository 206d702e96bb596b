"""``serve``."""

from __future__ import annotations

import logging
import signal
from typing import Annotated

import typer

from icefloe.cli.output import note
from icefloe.service.client import Client
from icefloe.service.serving import Service


def register(app: typer.Typer) -> None:
    app.command()(serve)


def serve(
    slots: Annotated[int | None, typer.Option(min=1, help="How many steps at once (default: engine.slots).")] = None,
) -> None:
    """Run scheduler and worker until told to end (Ctrl-C or SIGTERM: running steps are finished or handed over)."""
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("icefloe").setLevel(logging.INFO)
    with Client() as client:
        service = Service(client, slots=slots)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: service.stop())
        note(f"scheduler {service.scheduler.id} and worker {service.worker.id} on {client.database.label}")
        service.run()
    note("ended")
