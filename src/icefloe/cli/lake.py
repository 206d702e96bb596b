"""``icefloe changes`` and ``icefloe change-tables``: what changed in a table, and tables of just that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from icefloe import config
from icefloe.cli.clients import is_remote, open_client, refuse_words, remote_of
from icefloe.cli.lateness import Lateness, lateness_of, moment_of
from icefloe.cli.output import Output, OutputOption, byte_text, console, note, print_json

if TYPE_CHECKING:
    from icefloe.lake import ChangeSet, ChangeTable, Lake, PartitionChange
    from icefloe.service.remote import RemoteClient


class OnGap(StrEnum):
    fail = "fail"
    full = "full"
    diff = "diff"


MOST_PARTITIONS_SHOWN = 30
BAR_WIDTH = 30


def register(app: typer.Typer) -> None:
    app.command()(changes)
    tables = typer.Typer(help="Tables that hold just what changed.", no_args_is_help=True)
    tables.command("list")(list_change_tables)
    tables.command("drop")(drop_change_table)
    tables.command("clean")(clean_change_tables)
    app.add_typer(tables, name="change-tables")


def changes(
    table: Annotated[str, typer.Argument(help="The table: db.name.")],
    since: Annotated[int | None, typer.Option(help="Snapshot id to start after (default: the table as it is).")] = None,
    until: Annotated[int | None, typer.Option(help="Snapshot id to end with (default: the head).")] = None,
    ref: Annotated[str, typer.Option(help="The branch or tag to follow.")] = "main",
    operations: Annotated[
        str, typer.Option(help="What counts as change, with commas: append, overwrite, delete.")
    ] = "append",
    columns: Annotated[
        str | None, typer.Option(help="Columns to tell ranges of, with commas (default: those of the partitions).")
    ] = None,
    on_gap: Annotated[OnGap, typer.Option(help="When history is lost.")] = OnGap.fail,
    create: Annotated[str | None, typer.Option(metavar="NAME", help="Also make a change table of this name.")] = None,
    output: OutputOption = Output.text,
) -> None:
    """Show what changed in a table, from its metadata alone."""
    named = _words(columns) if columns is not None else None
    if is_remote():
        refuse_words(output)
        with _remote() as remote:
            document = remote.changes_document(
                table, create=create, since=since, until=until, ref=ref, operations=_words(operations), columns=named,
                on_gap=on_gap.value,
            )  # fmt: skip
        print_json(document)
        return
    from icefloe.service.table_changes import changes as changes_of

    lake = _open()
    change = changes_of(
        lake, table, since=since, until=until, ref=ref, operations=_words(operations), columns=named,
        on_gap=on_gap.value, create=create,
    )  # fmt: skip
    found, made = change.found, change.table
    if output is Output.json:
        print_json(change.to_dict())
        return
    show_changes(found)
    if made:
        full_name = f"{lake.tables.name}.{made.name}"
        console.print(Text(f"\nchange table {full_name}: {made.rows:,} rows in {made.files:,} files, no data copied"))
        note(f'read it with: icefloe sql "SELECT * FROM {full_name}"')


def list_change_tables(output: OutputOption = Output.text) -> None:
    """List the change tables of this catalog."""
    if is_remote():
        refuse_words(output)
        with _remote() as remote:
            print_json(remote.change_table_documents())
        return
    found = _open().change_tables()
    if output is Output.json:
        print_json([one.to_dict() for one in found])
        return
    if not found:
        note("no change tables. Make one with: icefloe changes TABLE --create NAME")
        return
    console.print(_change_tables(found))


def drop_change_table(
    name: Annotated[str, typer.Argument(help="Its name.")], output: OutputOption = Output.text
) -> None:
    """Drop a change table. The source's files are not touched."""
    if is_remote():
        with _remote() as remote:
            dropped = remote.drop_change_table(name)
    else:
        dropped = _open().drop_change_table(name).to_dict()
    if output is Output.json:
        print_json(dropped)
        return
    note(f"dropped {dropped['name']}")


def clean_change_tables(
    older_than: Annotated[float, typer.Option(help="Hours; younger leftovers may belong to a running capture.")] = 1.0,
    output: OutputOption = Output.text,
) -> None:
    """Delete what captures that died left behind."""
    if is_remote():
        with _remote() as remote:
            removed = tuple(remote.clean_change_tables(older_than))
    else:
        removed = _open().clean_change_tables(older_than_seconds=older_than * 3600)
    if output is Output.json:
        print_json(list(removed))
        return
    note(f"removed {len(removed)} leftover folder(s)" + (": " + ", ".join(removed) if removed else ""))


# -- words and pictures --------------------------------------------------------------------------------------------------


def _open() -> Lake:
    from icefloe.lake import Lake  # PyIceberg takes a second to import

    return Lake.open(config.load())


def _remote() -> RemoteClient:
    client = remote_of(open_client())
    assert client is not None
    return client


def _plain(value: Any) -> object:
    from icefloe.lake.values import to_json

    return to_json(value)


def show_changes(found: ChangeSet) -> None:
    """A change set for people: what, how much, where, and how late."""
    span = f"{found.from_snapshot or 'the beginning'} → {found.to_snapshot or 'no snapshot yet'}"
    console.print(Text.assemble((found.table, "bold"), f"  {span}  on {found.ref}"))
    if found.kind == "full":
        console.print(Text("the table as it is, deletes applied", style="dim"))
    if found.gap is not None:
        console.print(Text(f"history is lost ({found.gap.message}); shown instead: {found.kind}", style="yellow"))
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    facts.add_row("added", _amount(found.added.files, found.added.rows, found.added.bytes))
    if found.removed.files:
        facts.add_row("removed", _amount(found.removed.files, found.removed.rows, found.removed.bytes))
    if found.delete_files:
        facts.add_row("delete files", f"{found.delete_files:,}")
    facts.add_row("operations", _counts(found.operations) or "none")
    if found.skipped_operations:
        facts.add_row(
            "skipped", Text(f"{_counts(found.skipped_operations)}  (add them with --operations)", style="yellow")
        )
    facts.add_row("append only", "yes" if found.append_only else "no")
    facts.add_row("exact", "yes" if found.exact else "no: added files may hold rows that were there before")
    for name, one in found.ranges.items():
        facts.add_row(Text(name), Text(_range(one.min, one.max, one.known, one.empty)))
    console.print(facts)
    if found.partitions and any(change.values for change in found.partitions):
        late = lateness_of(found.partitions)
        console.print()
        console.print(_bars(found.partitions, late))
        if late is not None:
            console.print(Text(late.sentence(), style="dim"))


def _bars(partitions: Sequence[PartitionChange], late: Lateness | None) -> Table:
    """A line per partition, the newest last; long lists keep their largest partitions."""
    shown = list(partitions)
    if len(shown) > MOST_PARTITIONS_SHOWN:
        largest = sorted(shown, key=lambda one: one.rows + one.removed_rows, reverse=True)[:MOST_PARTITIONS_SHOWN]
        shown = [one for one in shown if one in largest]
    most = max(one.rows for one in shown) or 1
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("partition")
    table.add_column("rows", justify="right")
    table.add_column("")
    table.add_column("files", justify="right")
    if late is not None:
        table.add_column("late by", justify="right")
    for one in shown:
        cells: list[Text | str] = [
            Text(" ".join(f"{name}={_partition_value(one, name)}" for name in one.values)),
            f"{one.rows:,}",
            Text("█" * max(round(one.rows / most * BAR_WIDTH), 1 if one.rows else 0), style="cyan"),
            f"{one.files:,}",
        ]
        if late is not None:
            cells.append(late.of(one))
        table.add_row(*cells)
    if len(shown) < len(partitions):
        table.add_row(Text(f"… and {len(partitions) - len(shown):,} smaller ones", style="dim"))
    return table


def _partition_value(change: PartitionChange, name: str) -> object:
    """Hours, months and years as people write them, not as Iceberg counts them."""
    shape = {"hour": "%Y-%m-%dT%H", "month": "%Y-%m", "year": "%Y"}.get(change.transforms.get(name, ""))
    moment = moment_of(change, name) if shape else None
    return f"{moment:{shape}}" if moment else _plain(change.values[name])


def _change_tables(found: Sequence[ChangeTable]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("name", "source", "from", "to"):
        table.add_column(heading)
    for heading in ("rows", "files"):
        table.add_column(heading, justify="right")
    table.add_column("created")
    for one in found:
        table.add_row(
            Text(one.name),
            Text(one.source),
            str(one.from_snapshot or "–"),
            str(one.to_snapshot or "–"),
            f"{one.rows:,}",
            f"{one.files:,}",
            f"{one.created:%Y-%m-%d %H:%M:%S}",
        )
    return table


def _amount(files: int, rows: int, size: int | None) -> str:
    return f"{rows:,} rows in {files:,} files" + (f", {byte_text(size)}" if size is not None else "")


def _counts(operations: Mapping[str, int]) -> str:
    return ", ".join(f"{name} × {count}" for name, count in operations.items())


def _range(low: object, high: object, known: bool, empty: bool) -> str:
    if empty:
        return "no values"
    if low is None and high is None:
        return "unknown: a file has no bounds for it"
    sides = [str(_plain(side)) if side is not None else "unknown" for side in (low, high)]
    return f"{sides[0]} … {sides[1]}" + ("" if known else "  (one side unknown: a file has no bound)")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
