"""``icefloe tokens``: who may use pages and REST."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from icefloe.cli.moments import ago, clock
from icefloe.cli.output import Output, OutputOption, console, note, print_json
from icefloe.service.access import LINK_SECONDS, Access, Role
from icefloe.service.client import Client

NameArgument = Annotated[str, typer.Argument(help="The token's name: who or what it is for.")]


def register(app: typer.Typer) -> None:
    tokens = typer.Typer(help="Who may use pages and REST: named tokens, and links that open the pages.")
    tokens.callback(invoke_without_command=True)(list_tokens)
    tokens.command()(add)
    tokens.command()(revoke)
    tokens.command()(link)
    app.add_typer(tokens, name="tokens")


def list_tokens(context: typer.Context, output: OutputOption = Output.text) -> None:
    """List tokens: names, roles, when they were last used. Secrets are shown once, when a token is made."""
    if context.invoked_subcommand is not None:
        return
    with Client() as client:
        listed = Access(client.database).tokens()
    if output is Output.json:
        print_json([token.to_dict() for token in listed])
        return
    if not listed:
        note("no tokens yet: icefloe tokens add NAME --role operator")
        return
    table = Table("token", "role", "made by", "last used", "state", box=None, pad_edge=False)
    for token in listed:
        state = f"revoked {ago(token.revoked_at)}" if token.revoked_at else "expired"
        if token.valid:
            state = f"until {clock(token.expires_at)}" if token.expires_at else "valid"
        table.add_row(token.name, token.role, token.created_by, ago(token.used_at) or "never", state)
    console.print(table)


def add(
    name: NameArgument,
    role: Annotated[Role, typer.Option(help="viewer looks, operator acts, admin also manages tokens.")] = Role.viewer,
    days: Annotated[float | None, typer.Option(help="How long it is valid (default: until revoked).")] = None,
    output: OutputOption = Output.text,
) -> None:
    """Make a token. Its secret is printed on stdout, once."""
    with Client() as client:
        secret = Access(client.database).add_token(name, role, days=days)
    if output is Output.json:
        print_json({"name": name, "role": role.value, "token": secret})
        return
    note(f"the token of {name} ({role.value}); it is not shown again:")
    print(secret)


def revoke(name: NameArgument) -> None:
    """End a token and the logins made with it, at once."""
    with Client() as client:
        revoked = Access(client.database).revoke_token(name)
    note(f"token {name} is revoked" if revoked else f"token {name} was revoked before")


def link(
    role: Annotated[Role, typer.Option(help="What who opens it may do.")] = Role.admin,
    output: OutputOption = Output.text,
) -> None:
    """Print a link that opens the pages once, without a token."""
    with Client() as client:
        address = (
            f"{client.config.server_url or 'http://localhost:8484'}/login?key={Access(client.database).make_link(role)}"
        )
    if output is Output.json:
        print_json({"url": address})
        return
    if not client.config.server_url:
        note("no server is running in this project: start it with icefloe serve")
    note(f"it opens the pages once, within {LINK_SECONDS / 60:.0f} minutes:")
    print(address)
