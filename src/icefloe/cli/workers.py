"""``worker``, ``workers``, ``db upgrade``."""

from __future__ import annotations

import signal
from typing import Annotated

import typer
from rich.table import Table

from icefloe import config as configuration
from icefloe.cli.moments import ago
from icefloe.cli.output import Output, OutputOption, console, log_without_secrets, note, print_json
from icefloe.engine.worker import Worker
from icefloe.service.client import Client
from icefloe.service.state import upgrade as upgrade_state


def register(app: typer.Typer) -> None:
    app.command()(worker)
    app.command()(workers)
    db = typer.Typer(help="The state database.", no_args_is_help=True)
    db.command()(upgrade)
    app.add_typer(db, name="db")


def worker(
    slots: Annotated[int | None, typer.Option(min=1, help="How many steps at once (default: engine.slots).")] = None,
) -> None:
    """Work on runs until told to end (Ctrl-C or SIGTERM: running steps are finished or handed over)."""
    log_without_secrets()
    with Client() as client:
        doer = Worker(client.config, client.database, slots=slots, warm=True)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: doer.stop())
        note(f"worker {doer.id} works on {client.database.label} ({doer.slots} steps at once)")
        doer.run()
    note("worker ended")


def workers(output: OutputOption = Output.text) -> None:
    """List the workers that are alive."""
    with Client() as client:
        found = client.workers()
    if output is Output.json:
        print_json([{name: getattr(item, name) for name in item.__slots__} for item in found])
        return
    if not found:
        note("no worker is alive: icefloe worker")
        return
    table = Table("worker", "host", "status", "slots", "works for", "last seen", box=None, pad_edge=False)
    for item in found:
        table.add_row(item.id, item.host, item.status, str(item.slots), item.serves, ago(item.seen_at))
    console.print(table)


def upgrade() -> None:
    """Bring the state database's schema up to this program's."""
    applied = upgrade_state(configuration.load())
    for migration in applied:
        note(f"applied {migration.number:04d} {migration.name}")
    note("the state database is up to date")
