"""Writes the reference pages that the program itself knows best: its commands, its error codes, its REST requests.

    python scripts/generate_reference.py            # write cli.md, errors.md and metrics.md in docs/reference/, and the requests in rest.md
    python scripts/generate_reference.py --check    # exit with 1 when a page is out of date

What to do about an error is written in ``docs/reference/errors.toml``, by code; a code without an entry is refused.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

import icefloe
from icefloe.cli.main import app, load_areas
from icefloe.cli.verbs import GROUPS
from icefloe.errors import IcefloeError
from icefloe.server.description import document
from icefloe.server.metrics import HTTP_FAMILIES, PREFIX
from icefloe.server.routes import ROUTERS
from icefloe.service.metrics import FAMILIES, FRESH_SECONDS
from icefloe.service.tallies import MOST_NAMES, SECONDS

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
REMEDIES = REFERENCE / "errors.toml"
NOTICE = "<!-- Written by scripts/generate_reference.py. Do not edit. -->\n"
REST_BEGINS, REST_ENDS = "<!-- requests -->", "<!-- end of requests -->"
UNIVERSAL = {"--help"}


def pages() -> dict[Path, str]:
    return {
        REFERENCE / "cli.md": commands_page(),
        REFERENCE / "errors.md": errors_page(),
        REFERENCE / "rest.md": rest_page(),
        REFERENCE / "metrics.md": metrics_page(),
    }


# -- metrics -----------------------------------------------------------------------------------------------------------------


def metrics_page() -> str:
    ends = ", ".join(f"{end:g}" for end in SECONDS)
    lines = [
        NOTICE,
        "# Metrics",
        "",
        "`icefloe serve` gives these at `/metrics`, as Prometheus text, to whoever shows a token of any role; `[server] open_metrics = true` needs none.",
        "[Monitor](../how-to/monitor.md) says how to collect them, and has a dashboard and alert rules.",
        "",
        "Counters and histograms come from the project's record of events, so one server tells about all workers. They count from its start.",
        "Lag and freshness are what its scheduler saw last: a scrape asks no catalog. A scrape is at most "
        f"{FRESH_SECONDS:g} seconds old, and costs one transaction over what goes on now.",
        f"At most {MOST_NAMES} workflows, consumers or tables have lines of their own; the rest is summed up as `other`.",
        f"Histograms are in seconds, with the buckets {ends}.",
        "",
        "| metric | kind | labels | meaning |",
        "|---|---|---|---|",
    ]
    for family in (*FAMILIES, *HTTP_FAMILIES):
        name = f"{PREFIX}{family.name}{'_total' if family.kind == 'counter' else ''}"
        labels = ", ".join(f"`{label}`" for label in family.labels)
        lines.append(f"| `{name}` | {family.kind} | {labels} | {family.text} |")
    return "\n".join([*lines, ""])


# -- commands ----------------------------------------------------------------------------------------------------------------


def commands_page() -> str:
    load_areas([])
    root: Any = get_command(app)
    lines = [
        NOTICE,
        "# Commands",
        "",
        "`icefloe COMMAND --help` prints the same. Options of `icefloe` itself go before the command.",
        "",
        *_options(root),
        "",
        "Exit codes: 0 success, 1 failure, 2 wrong usage, 3 something it needs is missing or unreachable, 4 stopped.",
        "",
    ]
    for title, verbs in GROUPS.items():
        lines += [f"## {title}", ""]
        for verb in verbs:
            lines += _command(root.commands[verb], f"icefloe {verb}")
    return "\n".join(lines).rstrip() + "\n"


def _command(command: Any, name: str) -> list[str]:
    children = getattr(command, "commands", None)
    lines = [f"### `{name}`", "", _text(command.help or ""), ""]
    if children:
        for child in children.values():
            lines += _command(child, f"{name} {child.name}")
        return lines
    with typer.Context(command, info_name=name) as context:
        usage = " ".join(command.collect_usage_pieces(context))
    lines += ["```text", f"{name} {usage}", "```", "", *_options(command)]
    return [*lines, ""]


def _options(command: Any) -> list[str]:
    rows = []
    for parameter in command.params:
        names = [*parameter.opts, *parameter.secondary_opts]
        if UNIVERSAL & set(names) or getattr(parameter, "hidden", False):
            continue
        is_argument = parameter.param_type_name == "argument"
        if is_argument:
            names = [str(parameter.metavar or parameter.name).strip("{}").upper()]
        label = ", ".join(f"`{name}`" for name in names)
        help_text = _text(getattr(parameter, "help", None) or "").replace("|", "\\|")
        rows.append(f"| {label} | {help_text}{_default(parameter)} |")
    return ["| | |", "|---|---|", *rows] if rows else []


def _default(parameter: Any) -> str:
    value = parameter.default
    if value in (None, False, True, (), [], "") or callable(value):
        return ""
    shown = getattr(value, "value", value)
    return f" Default: `{shown}`."


def _text(text: str) -> str:
    """Prose of one paragraph as it is, with reStructuredText's double backticks as Markdown's."""
    paragraphs = [" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n")]
    return "\n\n".join(paragraphs).replace("``", "`")


# -- errors ------------------------------------------------------------------------------------------------------------------


def error_classes() -> dict[str, list[type[IcefloeError]]]:
    """Every error class of the package, by code."""
    for module in pkgutil.walk_packages(icefloe.__path__, "icefloe."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    by_code: dict[str, list[type[IcefloeError]]] = {}
    for kind in sorted(set(_subclasses(IcefloeError)), key=lambda kind: (kind.__module__, kind.__name__)):
        if kind.__module__.startswith("icefloe.") and not kind.__name__.startswith("_"):
            by_code.setdefault(kind.code, []).append(kind)
    return dict(sorted(by_code.items()))


def _subclasses(kind: type[IcefloeError]) -> Iterator[type[IcefloeError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)


def errors_page() -> str:
    remedies = {code: _text(text) for code, text in tomllib.loads(REMEDIES.read_text(encoding="utf-8")).items()}
    classes = error_classes()
    if unknown := sorted(remedies.keys() - classes.keys()):
        raise SystemExit(f"{REMEDIES.name} names codes that no error has: {', '.join(unknown)}")
    if absent := sorted(classes.keys() - remedies.keys()):
        raise SystemExit(f"{REMEDIES.name} does not say what to do about: {', '.join(absent)}")
    lines = [
        NOTICE,
        "# Errors",
        "",
        "Each error has a stable code, a place, a reason and usually a hint with what to type next; with `--output json` and over REST they are",
        "fields. If the hint is not enough, find the code here. [Troubleshoot](../how-to/troubleshoot.md) begins at the symptom instead.",
        "",
        "*Retried*: whether a step that fails with it is repeated, and which number of its `retry` counts the attempts.",
        "",
    ]
    area = None
    for code, kinds in classes.items():
        if (prefix := code.partition(".")[0]) != area and "." in code:
            area = prefix
            lines += [f"## {area}", ""]
        meanings = " ".join(_first_paragraph(kind) for kind in kinds).strip()
        kind = kinds[0]
        again = (
            "yes, as a `platform` failure"
            if kind.retryable
            else "no"
            if kind.fatal
            else "in Spark steps, as an `error`"
        )
        lines += [
            f"### `{code}`",
            "",
            *([meanings, ""] if meanings else []),
            f"**What to do.** {remedies[code]}",
            "",
            f"Retried: {again}. Exit code {kind.exit_code}.",
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


# -- REST --------------------------------------------------------------------------------------------------------------------


def rest_page() -> str:
    """The page as it is, with the requests between the two marks written anew."""
    page = (REFERENCE / "rest.md").read_text(encoding="utf-8")
    before, _, rest = page.partition(REST_BEGINS)
    _, _, after = rest.partition(REST_ENDS)
    if not after:
        raise SystemExit(f"rest.md must have the lines {REST_BEGINS!r} and {REST_ENDS!r}")
    described = document(ROUTERS)
    lines, tag = [], None
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            if operation["tags"][0] != tag:
                tag = operation["tags"][0]
                lines += ["", f"### {tag.capitalize()}", "", "| request | takes | |", "|---|---|---|"]
            lines.append(_request(path, method, operation, described["components"]["schemas"]))
    return f"{before}{REST_BEGINS}\n{NOTICE.strip()}" + "\n".join(lines) + f"\n\n{REST_ENDS}{after}"


def _request(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    takes = [f"`{each['name']}`" for each in operation["parameters"] if each["in"] == "query"]
    if body := operation.get("requestBody"):
        schema = schemas[body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]]
        needed = schema.get("required", ())
        takes += [f"**`{name}`**" if name in needed else f"`{name}`" for name in schema["properties"]]
    about = _text(operation.get("description") or operation["summary"]).split("\n\n")[0].replace("|", "\\|")
    return f"| `{method.upper()} {path.removeprefix('/api/v1')}` | {', '.join(takes)} | {about} |"


def _first_paragraph(kind: type[IcefloeError]) -> str:
    text = kind.__dict__.get("__doc__") or ""
    return _text(text).split("\n\n")[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say what is out of date")
    check = parser.parse_args().check
    stale = [page for page, text in pages().items() if not page.is_file() or page.read_text(encoding="utf-8") != text]
    if check:
        for page in stale:
            print(f"{page.relative_to(ROOT)} is out of date; type: python scripts/generate_reference.py")
        return 1 if stale else 0
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
        print(f"wrote {page.relative_to(ROOT)}, {len(re.findall('^###', text, re.MULTILINE))} entries")
    return 0


if __name__ == "__main__":
    sys.exit(main())
