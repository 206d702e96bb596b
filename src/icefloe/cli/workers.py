"""``worker``, ``workers``, ``db upgrade``, ``db prune``."""

from __future__ import annotations

import logging
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from icefloe import config as configuration
from icefloe import suppressed
from icefloe.cli.clients import open_client
from icefloe.cli.moments import ago
from icefloe.cli.output import Output, OutputOption, console, log_without_secrets, note, print_json
from icefloe.engine.worker import Worker
from icefloe.errors import IcefloeError
from icefloe.service.client import Client
from icefloe.service.janitor import Janitor
from icefloe.service.state import upgrade as upgrade_state
from icefloe.store.workers import WorkerRecord


def register(app: typer.Typer) -> None:
    app.command()(worker)
    app.command()(workers)
    db = typer.Typer(help="The state database.", no_args_is_help=True)
    db.command()(upgrade)
    db.command()(prune)
    app.add_typer(db, name="db")


def worker(
    slots: Annotated[int | None, typer.Option(min=1, help="How many steps at once (default: engine.slots).")] = None,
) -> None:
    """Work on runs until told to end (Ctrl-C or SIGTERM: running steps are finished or handed over)."""
    log_without_secrets()
    with Client() as client:
        log_without_secrets(client.config.logs.format)
        logging.getLogger("icefloe").setLevel(logging.INFO)
        doer = Worker(client.config, client.database, slots=slots, warm=True)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: doer.stop())
        note(f"worker {doer.id} works on {client.database.label} ({doer.slots} steps at once)")
        doer.run()
    note("worker ended")


def workers(output: OutputOption = Output.text) -> None:
    """List the workers that are alive, and what went wrong in them without failing a step."""
    with open_client() as client:
        found = client.workers()
    if output is Output.json:
        print_json(
            [
                {name: getattr(item, name) for name in item.__slots__}
                | {"suppressed": {place: asdict(error) for place, error in _suppressed(item).items()}}
                for item in found
            ]
        )
        return
    if not found:
        note("no worker is alive: icefloe worker")
        return
    table = Table("worker", "host", "status", "slots", "works for", "last seen", box=None, pad_edge=False)
    for item in found:
        table.add_row(item.id, item.host, item.status, str(item.slots), item.serves, ago(item.seen_at))
    console.print(table)
    for item in found:
        for place, error in sorted(_suppressed(item).items()):
            note(f"{item.id}: {place} failed {error.count} times, last {ago(error.at)}: {error.last}")


def _suppressed(worker: WorkerRecord) -> dict[str, suppressed.Suppressed]:
    """What went wrong in it without failing a step, as far as its files can be seen from here."""
    if not worker.lock_file:  # it is known from a server elsewhere
        return {}
    return suppressed.read(suppressed.file_beside(Path(worker.lock_file)))


def upgrade() -> None:
    """Bring the state database's schema up to this program's."""
    applied = upgrade_state(configuration.load())
    for migration in applied:
        note(f"applied {migration.number:04d} {migration.name}")
    note("the state database is up to date")


def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would go.")] = False,
    vacuum: Annotated[
        bool,
        typer.Option(
            "--vacuum", help="SQLite: rewrite the whole file, so that it shrinks. Nobody else can write meanwhile."
        ),
    ] = False,
    output: OutputOption = Output.text,
) -> None:
    """Delete what is past its keep time ([keep] in icefloe.toml); `icefloe serve` does so by itself."""
    trouble, freed = None, None
    with Client() as client:
        janitor = Janitor(client.config, client.database)
        if dry_run:
            released = janitor.due_releases()
            pruned = [*janitor.due(), janitor.due_files()]
        else:
            try:
                released = janitor.release()
            except IcefloeError as error:  # what needs no catalog is done all the same
                released, trouble = 0, str(error)
            pruned = [*janitor.prune(), janitor.remove_files()]
            freed = client.database.give_back_space(whole=vacuum)
    if output is Output.json:
        print_json({
            "dry_run": dry_run,
            "kinds": [item.to_dict() for item in pruned],
            "released": released,
            "release_trouble": trouble,
            "freed_bytes": freed,
        })  # fmt: skip
        return
    table = Table("kind", "would go" if dry_run else "deleted", "bytes", "trouble", box=None, pad_edge=False)
    for item in pruned:
        table.add_row(item.kind, str(item.items), str(item.bytes), item.error or "")
    console.print(table)
    whose = "batch" if released == 1 else "batches"
    note(f"pins and change tables of {released} {whose} {'would be' if dry_run else 'are'} released")
    if trouble is not None:
        note(f"pins and change tables that are due stay for now: {trouble}")
    if not dry_run and freed is None:
        note(
            "the state file keeps its size, and what is free in it is used again; to shrink it: icefloe db prune --vacuum"
        )
