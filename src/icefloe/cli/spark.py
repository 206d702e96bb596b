"""``icefloe sql``, ``icefloe spark`` and ``icefloe spark-conf``: the project's Spark, and settings for another one."""

from __future__ import annotations

import math
import sys
import time
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from icefloe import config
from icefloe.cli.output import Output, OutputOption, console, note, print_json
from icefloe.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa


class ConfOutput(StrEnum):
    json = "json"
    properties = "properties"
    args = "args"


def register(app: typer.Typer) -> None:
    app.command()(sql)
    app.command("spark-conf")(spark_conf)
    server_commands = typer.Typer(help="The project's local Spark server.", no_args_is_help=True)
    server_commands.command("status")(status)
    server_commands.command("stop")(stop)
    app.add_typer(server_commands, name="spark")


# -- sql -----------------------------------------------------------------------------------------------------------------


def sql(
    text: Annotated[str | None, typer.Argument(help="One or several statements; - reads them from stdin.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the statements from a file.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most rows of one result.")] = 1000,
    output: OutputOption = Output.text,
) -> None:
    """Run SQL on the project's Spark."""
    from icefloe.spark.failure import explain
    from icefloe.spark.session import session
    from icefloe.spark.statements import split

    statements = split(_source(text, file))
    if not statements:
        raise UsageError("there is no statement in this", hint='icefloe sql "SHOW NAMESPACES"')
    results: list[dict[str, Any]] = []
    with session(config.load(), note=note) as spark:
        for statement in statements:
            began = time.monotonic()
            try:
                found = spark.sql(statement.text).limit(limit + 1).toArrow()
            except Exception as error:
                short = explain(error)
                if short is None:
                    raise
                raise _placed(short, statement.place, str(file) if file else None) from error
            if output is Output.json:
                results.append(_as_json(found, limit))
            else:
                _show(found, limit, time.monotonic() - began)
    if output is Output.json:
        print_json({"results": results})


def _source(text: str | None, file: Path | None) -> str:
    if (text is None) == (file is None):
        raise UsageError("give the SQL as one argument or with --file", hint='icefloe sql "SHOW NAMESPACES"')
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot be read: {error}", where=str(file)) from error
    return sys.stdin.read() if text == "-" else text or ""


def _placed(error: Any, place: Any, file: str | None) -> Exception:
    """The error with the line and column in what the user wrote, which may hold several statements."""
    if error.line is not None and error.column is not None:
        line, column = place(error.line, error.column)
        error.line, error.column = line, column
        error.where = f"{file}:{line}:{column}" if file else f"line {line}, column {column}"
    elif file:
        error.where = file
    assert isinstance(error, Exception)
    return error


def _as_json(found: pa.Table, limit: int) -> dict[str, Any]:
    kept = found.slice(0, limit)
    columns = [[_plain(value) for value in column.to_pylist()] for column in kept.columns]
    return {
        "columns": [{"name": field.name, "type": str(field.type)} for field in found.schema],
        "rows": [list(row) for row in zip(*columns, strict=True)] if columns else [],
        "truncated": found.num_rows > limit,
    }


def _show(found: pa.Table, limit: int, seconds: float) -> None:
    if not found.schema.names:
        note(f"done ({seconds:.2f} s)")
        return
    kept = found.slice(0, limit)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for field in found.schema:
        table.add_column(Text(field.name), justify="right" if _is_number(field.type) else "left", overflow="fold")
    for row in zip(*(column.to_pylist(maps_as_pydicts="lossy") for column in kept.columns), strict=True):
        table.add_row(*(_cell(value) for value in row))
    console.print(table, soft_wrap=False)
    rows = f"{kept.num_rows:,} row{'' if kept.num_rows == 1 else 's'}"
    more = f", more were left out (--limit {limit})" if found.num_rows > limit else ""
    note(f"{rows} ({seconds:.2f} s){more}")


def _plain(value: Any) -> Any:
    """A value as JSON has it: times in ISO form, bytes in hexadecimal, decimals as text so that no digit is lost."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, date | datetime | time_of_day):
        return value.isoformat()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _cell(value: object) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    if isinstance(value, bool):
        return Text(str(value).lower())
    if isinstance(value, bytes):
        return Text(f"X'{value.hex().upper()}'")
    return Text(str(value))


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


# -- spark ---------------------------------------------------------------------------------------------------------------


def status(output: OutputOption = Output.text) -> None:
    """Whether the project's Spark server runs."""
    from icefloe.spark import server

    loaded = config.load()
    if loaded.spark.remote:
        address = loaded.spark.remote.partition("/;")[0]
        if output is Output.json:
            print_json({"remote": address})
        else:
            console.print(Text(f"this project uses {address}; there is no local server"))
        return
    found = server.status(loaded)
    began = datetime.fromtimestamp(found.began, UTC) if found.began else None
    if output is Output.json:
        print_json(
            {
                "running": found.running,
                "ready": found.ready,
                "pid": found.pid,
                "port": found.port,
                "started_at": began.isoformat(timespec="seconds") if began else None,
                "in_use": found.in_use,
                "idle_minutes": loaded.spark.idle_minutes,
                "log": str(server.folder_of(loaded).log),
            }
        )
    elif not found.running or began is None:
        console.print(Text("not running; it starts when it is needed"))
    else:
        state = "ready" if found.ready else "starting"
        use = "in use" if found.in_use else f"unused (ends after {loaded.spark.idle_minutes:g} minutes of that)"
        console.print(Text(f"{state} and {use}: process {found.pid}, localhost:{found.port}, since {began:%F %T} UTC"))
        console.print(Text(f"log: {server.folder_of(loaded).log}", style="dim"))


def stop(output: OutputOption = Output.text) -> None:
    """End the project's Spark server. Statements that run on it fail."""
    from icefloe.spark import server

    stopped = server.stop(config.load())
    if output is Output.json:
        print_json({"stopped": stopped})
    else:
        console.print(Text("stopped" if stopped else "not running"))


def spark_conf(
    output: Annotated[
        ConfOutput, typer.Option("--output", "-o", help="json, a properties file, or spark-submit arguments.")
    ] = ConfOutput.properties,
    reveal: Annotated[bool, typer.Option("--reveal", help="Print secrets instead of their names.")] = False,
) -> None:
    """Settings with which another Spark reaches the same catalog, jars included."""
    from icefloe.spark import jars, java, settings

    loaded = config.load()
    wanted = jars.required(loaded)
    absent = jars.missing(wanted)
    paths = (
        jars.ensure(wanted, java.find(loaded.spark.java_home).launcher, note=note)
        if absent
        else [jars.cache_folder() / jar.file_name for jar in wanted]
    )
    found = settings.for_joining(loaded, paths, reveal=reveal)
    written = {
        ConfOutput.json: settings.as_json,
        ConfOutput.properties: settings.as_properties,
        ConfOutput.args: settings.as_arguments,
    }[output](found)
    sys.stdout.write(written + "\n")
    if keys := settings.hidden(found):
        note(f"secrets are not shown: {', '.join(keys)} (print them with --reveal)")
