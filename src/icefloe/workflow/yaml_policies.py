"""Retry, run strategy and alerting as written in YAML."""

from __future__ import annotations

from dataclasses import replace

from icefloe.workflow.document import MapNode, ScalarNode, describe, to_json
from icefloe.workflow.field_types import InvalidValueError
from icefloe.workflow.fields import Fields
from icefloe.workflow.model import AlertEvent, Alerting, Backoff, MaxLag, RetryPolicy, RunRule, RunStrategy
from icefloe.workflow.reserved import choose, fold


def read_retry(fields: Fields) -> RetryPolicy | None:
    """``retry: 3``, or ``retry: {error: 3, platform: 10, timeout: 0, backoff: {initial: 60s, factor: 2}}``."""
    node = fields.get("retry")
    if node is None:
        return None
    if isinstance(node, MapNode):
        inner = Fields(node, "retry", fields.findings)
        return RetryPolicy(**inner.values(RetryPolicy), backoff=_read_backoff(inner))
    if isinstance(node, ScalarNode) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return RetryPolicy(**fields.bare("retry", RetryPolicy))
    fields.wrong("retry", "a number of retries or a map")
    return None


def _read_backoff(fields: Fields) -> Backoff:
    node = fields.get("backoff")
    if node is None:
        return Backoff()
    if isinstance(node, ScalarNode):
        return Backoff(**fields.bare("backoff", Backoff))
    inner_node = fields.map("backoff")
    if inner_node is None:
        return Backoff()
    inner = Fields(inner_node, "backoff", fields.findings)
    backoff = Backoff(**inner.values(Backoff))
    fixed = fold(inner.text("type") or "") in ("fixedbackoff", "fixed")
    return replace(backoff, factor=1.0) if fixed else backoff


def read_run_strategy(fields: Fields) -> RunStrategy:
    """``run_strategy: parallel`` with ``workflow_concurrency: 5`` beside it, or both in one map."""
    node = fields.get("run_strategy")
    if isinstance(node, MapNode):
        source = Fields(node, "run strategy", fields.findings)
        said, values = "rule" in source, source.values(RunStrategy)
    else:
        source, said = fields, node is not None
        values = fields.bare("run_strategy", RunStrategy) | fields.values(RunStrategy)
    strategy = RunStrategy(**values)
    if strategy.concurrency is None or strategy.rule is RunRule.PARALLEL:
        return strategy
    if not said:
        return replace(strategy, rule=RunRule.PARALLEL)
    source.findings.warning(
        "definition.concurrency",
        f"'workflow_concurrency' has no effect with {strategy.rule.value}",
        source.at("workflow_concurrency"),
        "run_strategy: parallel",
    )
    return RunStrategy(strategy.rule)


def read_alerting(fields: Fields) -> Alerting | None:
    """``alerting: https://…``, a list of channels, or a map with events, templates and the greatest lag."""
    node = fields.get("alerting")
    if node is None:
        return None
    if not isinstance(node, MapNode):
        return Alerting(**fields.bare("alerting", Alerting))
    inner = Fields(node, "alerting", fields.findings)
    lag_node = inner.map("max_lag")
    lag = Fields(lag_node, "max lag", fields.findings) if lag_node is not None else None
    return Alerting(
        **inner.values(Alerting),
        events=_events(inner),
        templates=_templates(inner),
        max_lag=MaxLag(**lag.values(MaxLag)) if lag else None,
    )


def _events(fields: Fields) -> tuple[AlertEvent, ...]:
    if "events" not in fields:
        return tuple(AlertEvent)
    events = []
    for word in fields.texts("events"):
        try:
            events.append(choose(AlertEvent, word, "alert event", "events"))
        except InvalidValueError as error:
            fields.error(error.code, str(error), fields.at("events"), error.hint)
    return tuple(dict.fromkeys(events))


def _templates(fields: Fields) -> dict[str, str]:
    node = fields.map("templates")
    templates = {}
    for entry in node.entries.values() if node else ():
        value = to_json(entry.value)
        try:
            event = choose(AlertEvent, entry.key, "alert event", "events")
            if not isinstance(value, str):
                message = f"a template is a text, this is {describe(entry.value)}"
                raise InvalidValueError("definition.unknown-value", message)
            templates[event.value] = value
        except InvalidValueError as error:
            fields.error(error.code, str(error), entry.position, error.hint)
    return templates
