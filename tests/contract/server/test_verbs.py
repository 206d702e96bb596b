"""Every verb of the command line is in REST, or here with the reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
from typer.main import get_command

from icefloe.cli.clients import FILES_ONLY, HERE_ONLY
from icefloe.cli.main import app, load_areas

IN_REST: dict[str, tuple[str, ...]] = {
    "activate": ("activate_workflow",),
    "captures": ("list_captures",),
    "captures abandon": ("abandon_capture",),
    "captures show": ("get_capture",),
    "change-tables clean": ("clean_change_tables",),
    "change-tables drop": ("drop_change_table",),
    "change-tables list": ("list_change_tables",),
    "changes": ("get_changes", "create_change_table"),
    "consumers": ("list_consumers",),
    "consumers audit": ("list_audit",),
    "consumers fast-forward": ("fast_forward_consumer",),
    "consumers remove": ("remove_consumer",),
    "consumers rename": ("rename_consumer",),
    "consumers rewind": ("rewind_consumer",),
    "consumers show": ("get_consumer",),
    "convert": ("convert_definition",),
    "deactivate": ("deactivate_workflow",),
    "diff": ("diff_definition", "diff_versions"),
    "explain": ("explain_workflow",),
    "graph": ("graph_definition", "get_graph"),
    "incidents": ("list_incidents",),
    "kill": ("kill_run",),
    "logs": ("get_log", "get_log_tail"),
    "pause": ("pause_run", "pause_workflow"),
    "push": ("push_workflow",),
    "restart": ("restart_run",),
    "resume": ("resume_run", "resume_workflow"),
    "run": ("start_run",),
    "runs": ("list_runs",),
    "savings": ("get_savings",),
    "schema": ("get_definition_schema",),
    "show": ("get_run", "list_attempts", "list_events"),
    "signal": ("publish_signal",),
    "signals": ("list_signals",),
    "skip": ("skip_step",),
    "stop": ("stop_run",),
    "unblock": ("unblock_workflow",),
    "validate": ("validate_definition",),
    "watermark": ("set_watermark", "list_watermarks"),
    "why": ("why_not",),
    "workers": ("list_workers",),
    "workflows": ("list_workflows", "get_workflow", "list_versions", "get_definition"),
}
"""Verb -> operations of the OpenAPI document. A verb that is new goes here, or among those that stay on one machine."""
NOT_IN_REST = HERE_ONLY
"""Verb, with all below it -> why."""


def verbs() -> Iterator[str]:
    load_areas([])
    root: Any = get_command(app)

    def below(command: Any, name: str) -> Iterator[str]:
        children = getattr(command, "commands", {})
        if not children or getattr(command, "invoke_without_command", False):
            yield name
        for child in children.values():
            yield from below(child, f"{name} {child.name}")

    for command in root.commands.values():
        yield from below(command, str(command.name))


def operations(rest: httpx.Client) -> dict[str, str]:
    paths = rest.get("/api/v1/openapi.json").json()["paths"]
    return {operation["operationId"]: path for path, methods in paths.items() for operation in methods.values()}


def test_every_verb_is_in_rest_or_has_a_reason_not_to_be(rest: httpx.Client) -> None:
    known = operations(rest)
    for verb in verbs():
        assert (verb in IN_REST) != (verb.partition(" ")[0] in NOT_IN_REST), verb
    assert set(IN_REST) <= set(verbs()), "a verb is gone"
    named = [operation for each in IN_REST.values() for operation in each]
    assert set(named) <= set(known), "an operation is gone: programs rely on its name"
    assert len(named) == len(set(named))


def test_what_looks_at_files_alone_is_in_rest_too() -> None:
    assert set(FILES_ONLY) <= set(IN_REST)


def test_every_operation_says_what_it_may_answer_and_has_a_stable_name(rest: httpx.Client) -> None:
    document = rest.get("/api/v1/openapi.json").json()
    problems = document["components"]["responses"]
    seen = set()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = operation["operationId"]
            assert name not in seen and name.isidentifier() and operation["tags"] and operation["summary"], name
            seen.add(name)
            errors = {status for status in operation["responses"] if status[0] in "45"}
            assert {"400", "401", "500", "503"} <= errors, name
            for status in errors:
                reference = operation["responses"][status]["$ref"].rpartition("/")[2]
                assert "application/problem+json" in problems[reference]["content"]
            body = operation.get("requestBody")
            if body is not None:
                schema = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                assert document["components"]["schemas"][schema].get("examples") or schema in ("Deed", "CleanUp"), (
                    schema
                )
            parameters = {parameter["name"] for parameter in operation["parameters"]}
            assert ("Idempotency-Key" in parameters) == (method == "post"), path
    assert "HTTPValidationError" not in document["components"]["schemas"]
