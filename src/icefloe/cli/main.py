"""``icefloe``: puts the areas' commands together and turns errors into exit codes.

Exit codes: 0 fine, 1 the run failed, 2 usage, 3 unreachable, 4 stopped.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import icefloe
from icefloe import platforms
from icefloe.acting import acting
from icefloe.cli import output
from icefloe.cli.clients import choose_server
from icefloe.cli.verbs import Verbs
from icefloe.errors import IcefloeError

app = typer.Typer(
    name="icefloe",
    cls=Verbs,
    help="Incremental processing for Apache Iceberg tables on Spark.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"icefloe {icefloe.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", help="The project's icefloe.toml (default: searched upwards).")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            help="The address of a server to speak to, instead of this folder's project (or ICEFLOE_SERVER).",
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="Where the token for --server is (default: ICEFLOE_TOKEN).")
    ] = None,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    if config is not None:
        os.environ["ICEFLOE_CONFIG"] = str(config)
    choose_server(server, token_file, context.invoked_subcommand)


AREAS: dict[str, tuple[str, ...]] = {
    "project": ("init", "doctor"),
    "demo": ("demo",),
    "lake": ("changes", "change-tables"),
    "definitions": ("validate", "graph", "convert", "schema"),
    "workflows": ("push", "diff", "workflows", "unblock"),
    "runs": ("run", "runs", "show", "logs", "restart", "stop", "kill", "pause", "resume", "skip"),
    "explain": ("explain",),
    "savings": ("savings",),
    "consumers": ("consumers", "captures"),
    "workers": ("worker", "workers", "db"),
    "serving": ("serve",),
    "access": ("tokens",),
    "triggers": ("why", "signal", "signals", "watermark", "incidents", "activate", "deactivate"),
    "spark": ("sql", "spark", "spark-conf"),
}
"""Which module of this package has which commands. A test holds it to what the modules register."""


_loaded: set[str] = set()


def load_areas(words: Sequence[str]) -> None:
    """Import the area that the first command word belongs to; all of them when it is none's, as for ``--help``.

    PyIceberg and SQLAlchemy take a second to import, and most commands need neither.
    """
    owner = next((area for word in words for area, commands in AREAS.items() if word in commands), None)
    for area in AREAS if owner is None else (owner,):
        if area not in _loaded:
            importlib.import_module(f"icefloe.cli.{area}").register(app)
            _loaded.add(area)


def main() -> None:
    """Entry point of the ``icefloe`` command."""
    try:
        if caveat := platforms.check(sys.argv[1:]):
            output.note(caveat)
        load_areas(sys.argv[1:])
        with acting(None, "cli"):
            app()
    except IcefloeError as error:
        wants_json = any(word in ("--output=json", "-ojson") for word in sys.argv) or any(
            pair in (("--output", "json"), ("-o", "json")) for pair in zip(sys.argv, sys.argv[1:], strict=False)
        )
        output.print_error(error, output.Output.json if wants_json else output.Output.text)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our stdout (head, less) has gone: nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    main()
