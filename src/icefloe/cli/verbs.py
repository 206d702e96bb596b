"""The list of verbs that ``icefloe --help`` prints, in groups as people think of them."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

GROUPS: dict[str, tuple[str, ...]] = {
    "Try it": ("demo", "init", "doctor"),
    "Define": ("validate", "graph", "explain", "diff", "push", "convert", "schema"),
    "Run": ("run", "restart", "stop", "kill", "pause", "resume", "skip", "unblock", "signal", "watermark"),
    "Look": ("workflows", "runs", "show", "logs", "why", "incidents", "signals", "savings"),
    "Tables": ("changes", "change-tables", "consumers", "captures", "sql"),
    "Operate": ("serve", "worker", "workers", "tokens", "activate", "deactivate", "db", "spark", "spark-conf"),
}
"""Every verb is in exactly one of them; a test holds that."""


class Verbs(TyperGroup):
    """A group of commands that is listed by :data:`GROUPS`, each with its whole first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        # Newer Typers bring a Click of their own, older ones use the installed one: no type fits both.
        known = self.list_commands(ctx)
        width = max(map(len, known), default=0)
        rest = tuple(name for name in known if not any(name in verbs for verbs in GROUPS.values()))
        for title, verbs in {**GROUPS, "More": rest}.items():
            commands = [(name, self.get_command(ctx, name)) for name in verbs if name in known]
            rows = [(name.ljust(width), command.get_short_help_str(1_000)) for name, command in commands if command]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
