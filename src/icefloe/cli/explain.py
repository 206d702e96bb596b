"""``icefloe explain``: how the next run would write its targets, why not more cheaply, and the SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from icefloe.cli.clients import open_client, refuse_words, remote_of
from icefloe.cli.output import Output, OutputOption, byte_text, console, note, print_json
from icefloe.errors import UsageError

if TYPE_CHECKING:
    from icefloe.planner.plan import Cost, Plan, PlannedStatement
    from icefloe.service.explain import Explained


def register(app: typer.Typer) -> None:
    app.command()(explain)


def explain(
    workflow: Annotated[str, typer.Argument(help="The workflow's id.")],
    params: Annotated[list[str] | None, typer.Argument(help="Parameters as name=value.")] = None,
    sql: Annotated[bool, typer.Option(help="Show the statements.")] = True,
    output: OutputOption = Output.text,
) -> None:
    """Show how the next run would write its targets: the pattern, why not a cheaper one, what it reads, the SQL."""
    given = {}
    for item in params or ():
        name, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"{item!r} is no parameter", hint="name=value")
        given[name] = value
    with open_client() as client:
        if remote := remote_of(client):
            refuse_words(output)
            print_json(remote.explain_documents(workflow, given))
            return
        found = client.explain(workflow, given)
    if output is Output.json:
        print_json([one.to_dict() for one in found])
        return
    for one in found:
        _show(one, sql)
    note("nothing was run; names of change tables and of the attempt's branch are the run's own")


def _show(one: Explained, sql: bool) -> None:
    plan = one.plan
    title = Text(one.step, style="bold")
    title.append(f" -> {one.target}: ", style="none")
    title.append(plan.pattern, style="bold cyan")
    console.print(title)
    console.print(Text(f"  {plan.reason}"))
    for refusal in plan.refusals:
        console.print(Text(f"  not {refusal.pattern}: {refusal.reason}", style="dim"))
    for line in plan.notes:
        console.print(Text(f"  {line}", style="yellow"))
    if one.shadow is not None:
        console.print(Text(f"  {one.shadow}", style="cyan"))
    if one.logic is not None:
        console.print(
            Text(f"  the SELECT has changed since run {one.logic.since_run}: {one.logic.then}", style="yellow")
        )
        for line in one.logic.difference:
            console.print(Text(f"    {line}", style="green" if line.startswith("+") else "red"))
    _partitions(plan)
    if plan.reads:
        table = Table(box=None, padding=(0, 2, 0, 2), header_style="dim")
        table.add_column("reads")
        table.add_column("what")
        for heading in ("files", "rows", "bytes"):
            table.add_column(heading, justify="right")
        for read in plan.reads:
            size = read.size
            amounts = (f"{size.files:,}", f"{size.rows:,}", byte_text(size.bytes)) if size else ("?", "?", "?")
            table.add_row(Text(read.table), Text(read.what), *amounts)
        console.print(table)
    _costs(plan)
    if plan.search is not None:
        named = ", ".join(of_target for _, of_target in plan.search.keys)
        console.print(Text(f"  the step itself looks changed {named} up in the data files; Spark gets what it finds"))
    if sql:
        for statement in _statements(plan):
            beside = ", at the same time as those before" if statement.beside else ""
            beside = ", its rows are computed while those before run" if statement.rows else beside
            console.print(Text(f"\n-- {statement.role}{beside}", style="dim"))
            console.print(Text(f"{statement.sql};"))
        if plan.duplicates is not None:
            console.print(Text("\n-- must give no row", style="dim"))
            console.print(Text(f"{plan.duplicates};"))
        for text in plan.compaction.statements if plan.compaction is not None else ():
            console.print(Text("\n-- after it is published: small files are joined", style="dim"))
            console.print(Text(f"{text};"))
    console.print()


def _costs(plan: Plan) -> None:
    """The plan beside a full run, and beside what it was taken in place of."""
    costs: list[tuple[str, Cost | None]] = [(plan.pattern, plan.cost)]
    costs.append(("full", plan.full_cost if plan.pattern != "full" else None))
    outweighed = next((refusal.pattern for refusal in reversed(plan.refusals)), "") if plan.outweighed else ""
    costs.append((outweighed, plan.outweighed))
    if plan.cost is None and plan.full_cost is None:
        return
    table = Table(box=None, padding=(0, 2, 0, 2), header_style="dim")
    table.add_column("estimate")
    for heading in ("reads rows", "bytes", "deletes rows", "writes rows", "bytes", "weighs"):
        table.add_column(heading, justify="right")
    for pattern, cost in costs:
        if cost is not None:
            table.add_row(
                Text(pattern),
                f"{cost.read.rows:,}",
                byte_text(cost.read.bytes),
                f"{cost.deleted:,}",
                f"{cost.written.rows:,}",
                byte_text(cost.written.bytes),
                f"{cost.seconds:.2f}",
            )
        elif pattern == plan.pattern:
            table.add_row(Text(pattern), *["?"] * 6)
    console.print(table)


def _statements(plan: Plan) -> tuple[PlannedStatement, ...]:
    """What Spark is asked."""
    if plan.search is None:
        return plan.statements
    return (*plan.search.statements, *(one for one in plan.statements if one.beside))


def _partitions(plan: Plan) -> None:
    touched = plan.partitions
    if touched is None:
        return
    for what, values in (("new", touched.new), ("late", touched.late), ("overwritten", touched.overwritten)):
        if values:
            shown = ", ".join("NULL" if value is None else str(value) for value in values[:15])
            more = f" and {len(values) - 15} more" if len(values) > 15 else ""
            console.print(Text(f"  {what} partitions of {touched.column}: {shown}{more}"))
