"""Every verb of the command line is in REST and on a page, or here with the reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
from typer.main import get_command

from icefloe.cli.clients import FILES_ONLY, HERE_ONLY
from icefloe.cli.main import app, load_areas
from icefloe.server import pages
from icefloe.server.repeated import WITHOUT_KEYS

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
    "db prune": ("prune",),
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
    "spark status": ("show_spark",),
    "spark stop": ("stop_spark",),
    "stop": ("stop_run",),
    "tokens": ("list_tokens",),
    "tokens add": ("add_token",),
    "tokens revoke": ("revoke_token",),
    "unblock": ("unblock_workflow",),
    "validate": ("validate_definition",),
    "watermark": ("set_watermark", "list_watermarks"),
    "why": ("why_not",),
    "workers": ("list_workers",),
    "workflows": ("list_workflows", "get_workflow", "list_versions", "get_definition"),
}
"""Verb -> operations of the OpenAPI document. A verb that is new goes here, or among those that stay on one machine."""
NOT_IN_REST = {
    **{verb: HERE_ONLY[verb] for verb in ("init", "demo", "doctor", "serve", "sql", "worker", "spark-conf")},
    "db upgrade": "no server runs on a schema that is not its own",
    "tokens link": "who can type it is on the server's machine, and that is what the link vouches for",
}
"""Verb -> why."""
ON_PAGES: dict[str, tuple[str, ...]] = {
    "activate": ("POST /workflows/{workflow_id}/{verb}",),
    "captures": ("GET /consumers",),
    "captures abandon": ("GET /consumers/preview", "POST /consumers/confirm"),
    "captures show": ("GET /captures/{capture_id:path}",),
    "changes": ("GET /tables/{name:path}",),
    "consumers": ("GET /consumers",),
    "consumers audit": ("GET /system",),
    "consumers fast-forward": ("GET /consumers/preview", "POST /consumers/confirm"),
    "consumers remove": ("GET /consumers/preview", "POST /consumers/confirm"),
    "consumers rename": ("GET /consumers/preview", "POST /consumers/confirm"),
    "consumers rewind": ("GET /consumers/preview", "POST /consumers/confirm"),
    "consumers show": ("GET /consumers",),
    "db prune": ("POST /system/janitor/prune",),
    "deactivate": ("POST /workflows/{workflow_id}/{verb}",),
    "diff": ("GET /workflows/{workflow_id}/definition",),
    "explain": ("GET /workflows/{workflow_id}/explain",),
    "graph": ("GET /workflows/{workflow_id}",),
    "incidents": ("GET /",),
    "kill": ("POST /runs/{run_id}/{verb}",),
    "logs": ("GET /runs/{run_id}/log",),
    "pause": ("POST /runs/{run_id}/{verb}", "POST /workflows/{workflow_id}/{verb}"),
    "restart": ("POST /runs/{run_id}/restart",),
    "resume": ("POST /runs/{run_id}/{verb}", "POST /workflows/{workflow_id}/{verb}"),
    "run": ("GET /workflows/{workflow_id}/run", "POST /workflows/{workflow_id}/run"),
    "runs": ("GET /runs",),
    "savings": ("GET /savings",),
    "show": ("GET /runs/{run_id:path}",),
    "signal": ("POST /workflows/{workflow_id}/signal",),
    "skip": ("POST /runs/{run_id}/skip",),
    "spark status": ("GET /system",),
    "spark stop": ("POST /system/spark/stop",),
    "stop": ("POST /runs/{run_id}/{verb}",),
    "tokens": ("GET /system",),
    "tokens add": ("POST /system/tokens",),
    "tokens revoke": ("POST /system/tokens/{name:path}/revoke",),
    "unblock": ("POST /workflows/{workflow_id}/{verb}",),
    "watermark": ("POST /workflows/{workflow_id}/watermark",),
    "why": ("GET /workflows/{workflow_id}/why",),
    "workers": ("GET /system",),
    "workflows": ("GET /workflows",),
}
"""Verb -> where a person finds it."""
NOT_ON_PAGES = {
    **NOT_IN_REST,
    "push": "definitions are files under version control: they come from where they are kept",
    "validate": "it is about a file, before it is pushed",
    "convert": "it is about a file",
    "schema": "it is for editors",
    "signals": "who waits for one sees it at the workflow; the whole list is for programs",
    "change-tables clean": "the janitor does it",
    "change-tables drop": "the janitor does it; by hand it is for who debugs",
    "change-tables list": "a capture's page has its own",
}
"""Verb -> why a person would not look for it there."""


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
        assert (verb in IN_REST) != (verb in NOT_IN_REST), verb
    assert set(IN_REST) | set(NOT_IN_REST) == set(verbs()), "a verb is gone"
    named = [operation for each in IN_REST.values() for operation in each]
    assert set(named) <= set(known), "an operation is gone: programs rely on its name"
    assert len(named) == len(set(named))


def test_every_verb_is_on_a_page_or_has_a_reason_not_to_be() -> None:
    known = {
        f"{method} {route.path}"
        for router in pages.ROUTERS
        for route in router.routes
        for method in getattr(route, "methods", ())
    }
    for verb in verbs():
        assert (verb in ON_PAGES) != (verb in NOT_ON_PAGES), verb
    assert set(ON_PAGES) | set(NOT_ON_PAGES) == set(verbs()), "a verb is gone"
    for verb, places in ON_PAGES.items():
        assert set(places) <= known, (verb, set(places) - known)


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
            assert ("Idempotency-Key" in parameters) == (method == "post" and path not in WITHOUT_KEYS), path
    assert "HTTPValidationError" not in document["components"]["schemas"]
