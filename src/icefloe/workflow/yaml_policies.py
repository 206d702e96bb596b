"""Retry, run strategy and alerting as written in YAML."""

from __future__ import annotations

from icefloe.workflow.document import MapNode, ScalarNode, describe, to_json
from icefloe.workflow.fields import Fields
from icefloe.workflow.model import AlertEvent, Alerting, Backoff, MaxLag, RetryPolicy, RunRule, RunStrategy
from icefloe.workflow.problems import suggestion
from icefloe.workflow.reserved import fold
from icefloe.workflow.values import clip

MOST_RETRIES = 1000


def read_retry(fields: Fields) -> RetryPolicy | None:
    """``retry: 3``, or ``retry: {error: 3, platform: 10, timeout: 0, backoff: {initial: 60s, factor: 2}}``."""
    node = fields.get("retry")
    if node is None:
        return None
    if isinstance(node, ScalarNode) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return RetryPolicy(error=fields.whole("retry", most=MOST_RETRIES) or 0)
    if not isinstance(node, MapNode):
        fields.wrong("retry", "a number of retries or a map")
        return None
    inner = Fields(node, "retry", fields.findings)
    default = RetryPolicy()

    def limit(name: str, otherwise: int) -> int:
        found = inner.whole(name, most=MOST_RETRIES)
        return otherwise if found is None else found

    return RetryPolicy(
        error=limit("error", default.error),
        platform=limit("platform", default.platform),
        timeout=limit("timeout", default.timeout),
        backoff=_read_backoff(inner),
    )


def _read_backoff(fields: Fields) -> Backoff:
    node = fields.get("backoff")
    if node is None:
        return Backoff()
    default = Backoff()
    if isinstance(node, ScalarNode):
        initial = fields.duration("backoff", positive=False)
        return default if initial is None else Backoff(initial=initial)
    inner_node = fields.map("backoff")
    if inner_node is None:
        return default
    inner = Fields(inner_node, "backoff", fields.findings)
    fixed = fold(inner.text("type") or "") in ("fixedbackoff", "fixed")
    initial = inner.duration("initial", positive=False)
    factor = inner.number("factor", least=1.0, most=1000.0)
    maximum = inner.duration("maximum", positive=False)
    return Backoff(
        initial=default.initial if initial is None else initial,
        factor=1.0 if fixed else (default.factor if factor is None else factor),
        maximum=default.maximum if maximum is None else maximum,
    )


def read_run_strategy(fields: Fields) -> RunStrategy:
    """``run_strategy: parallel`` with ``workflow_concurrency: 5`` beside it, or both in one map."""
    node = fields.get("run_strategy")
    source = fields
    rule_key = "run_strategy"
    if isinstance(node, MapNode):
        source = Fields(node, "run strategy", fields.findings)
        rule_key = "rule"
    rule = source.choice(rule_key, RunRule, RunRule.SEQUENTIAL)
    concurrency = source.whole("workflow_concurrency", least=1, most=100_000)
    if concurrency is not None and rule is not RunRule.PARALLEL:
        if rule_key in source:
            source.findings.warning(
                "definition.concurrency",
                f"'workflow_concurrency' has no effect with {rule.value}",
                source.at("workflow_concurrency"),
                "run_strategy: parallel",
            )
            return RunStrategy(rule)
        rule = RunRule.PARALLEL
    return RunStrategy(rule, concurrency)


def read_alerting(fields: Fields) -> Alerting | None:
    """``alerting: https://…``, a list of channels, or a map with events, templates and the greatest lag."""
    node = fields.get("alerting")
    if node is None:
        return None
    if not isinstance(node, MapNode):
        return Alerting(channels=fields.texts("alerting"))
    inner = Fields(node, "alerting", fields.findings)
    lag_node = inner.map("max_lag")
    lag = Fields(lag_node, "max lag", fields.findings) if lag_node is not None else None
    return Alerting(
        channels=inner.texts("channels"),
        events=_events(inner),
        templates=_templates(inner),
        max_lag=MaxLag(lag.whole("snapshots", least=1), lag.whole("rows", least=1), lag.duration("time"))
        if lag
        else None,
    )


def _events(fields: Fields) -> tuple[AlertEvent, ...]:
    if "events" not in fields:
        return tuple(AlertEvent)
    by_fold = {fold(event.value): event for event in AlertEvent}
    found = []
    for word in fields.texts("events"):
        event = by_fold.get(fold(word))
        if event is None:
            hint = suggestion(word, [known.value for known in AlertEvent], "events")
            fields.error("definition.unknown-value", f"'{clip(word)}' is no alert event", fields.at("events"), hint)
        elif event not in found:
            found.append(event)
    return tuple(found)


def _templates(fields: Fields) -> dict[str, str]:
    node = fields.map("templates")
    templates = {}
    for entry in node.entries.values() if node else ():
        value = to_json(entry.value)
        known = next((event for event in AlertEvent if fold(event.value) == fold(entry.key)), None)
        if known is None or not isinstance(value, str):
            what = (
                f"'{clip(entry.key)}' is no alert event"
                if known is None
                else f"a template is a text, this is {describe(entry.value)}"
            )
            fields.error(
                "definition.unknown-value",
                what,
                entry.position,
                suggestion(entry.key, [event.value for event in AlertEvent], "events"),
            )
        else:
            templates[known.value] = value
    return templates
