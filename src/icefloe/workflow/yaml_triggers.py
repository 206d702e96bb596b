"""Triggers as written in YAML.

``Trigger:`` is one trigger, a list of them, or a map with several kinds in it; any of them starts a run::

    Trigger: {cron: '@daily', timezone: Europe/Berlin}
    Trigger: {incremental: {tables: [db.playback], at_most_every: 15m}}
    Trigger: [{every: 15m}, {signal: {name: upstream_done, match_params: {region: eu}}}]
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from icefloe.workflow import cron
from icefloe.workflow.document import Entry, ListNode, MapNode, Node, ScalarNode, describe, to_json
from icefloe.workflow.fields import Fields
from icefloe.workflow.model import (
    CatchUp,
    CronTrigger,
    IncrementalTrigger,
    IntervalTrigger,
    Param,
    SignalCondition,
    SignalTrigger,
    Trigger,
    WatermarkTrigger,
)
from icefloe.workflow.parameters import read_params
from icefloe.workflow.places import Places
from icefloe.workflow.problems import Findings, suggestion
from icefloe.workflow.reserved import LEVELS
from icefloe.workflow.values import clip
from icefloe.workflow.yaml_signals import read_match
from icefloe.workflow.zone_names import is_zone

OPERATIONS = ("append", "overwrite", "delete")


def read_triggers(node: Node, findings: Findings, places: Places) -> tuple[Trigger, ...]:
    """All triggers in a ``Trigger:`` value."""
    items = node.items if isinstance(node, ListNode) else [node]
    found: list[Trigger] = []
    for item in items:
        if isinstance(item, ScalarNode) and isinstance(item.value, str):
            item = MapNode(item.position, {"cron": Entry("cron", item.position, item)})
        if not isinstance(item, MapNode):
            findings.error(
                "definition.wrong-type",
                f"a trigger must be a map, this is {describe(item)}",
                item.position,
                "Trigger: {cron: '@daily'}",
            )
            continue
        for trigger in _read_map(item, findings):
            found.append(trigger)
            places.triggers.append(item.position)
    return tuple(found)


def _read_map(node: MapNode, findings: Findings) -> list[Trigger]:
    kinds = {name: entry for entry in node.entries.values() if (name := LEVELS["trigger"].match(entry.key)) is not None}
    if not kinds:
        key = next(iter(node.entries), "")
        findings.error(
            "trigger.kind",
            "the trigger says no kind",
            node.position,
            suggestion(key, LEVELS["trigger"].names(), "kinds"),
        )
        return []
    found = []
    beside = {key: entry for key, entry in node.entries.items() if entry not in kinds.values()}
    if len(kinds) > 1 and beside:
        entry = next(iter(beside.values()))
        findings.error(
            "trigger.kind",
            f"'{clip(entry.key)}' could belong to any of the {len(kinds)} triggers here",
            entry.position,
            "write the options below their trigger, or a list of triggers",
        )
        beside = {}
    for name, entry in kinds.items():
        read, main = _READERS[name]
        trigger = read(_fields(entry, beside, f"{name} trigger", main, findings))
        if trigger is not None:
            found.append(trigger)
    return found


def _fields(entry: Entry, beside: dict[str, Entry], level: str, main: str, findings: Findings) -> Fields:
    """Options stand below the kind's key or beside it; a value that is no map is the kind's main option."""
    options = dict(beside)
    if isinstance(entry.value, MapNode):
        options |= entry.value.entries
    elif not (isinstance(entry.value, ScalarNode) and entry.value.value in (None, True)):
        options[main] = Entry(main, entry.position, entry.value)
    return Fields(MapNode(entry.position, options), level, findings)


def _params(fields: Fields) -> tuple[Param, ...]:
    node = fields.map("params")
    return read_params(node.entries.values(), fields.findings) if node is not None else ()


def _cron(fields: Fields) -> Trigger | None:
    expression = fields.text("cron")
    if expression is None:
        if "cron" not in fields:
            fields.error("trigger.cron", "a cron trigger needs an expression", fields.position, "cron: '0 3 * * *'")
        return None
    reason = cron.problem(expression)
    if reason is not None:
        fields.error(
            "trigger.cron",
            reason,
            fields.at("cron"),
            "5 fields (minute hour day month weekday), 6 or 7 with seconds first, or @daily",
        )
        return None
    zone = fields.text("timezone") or "UTC"
    if not is_zone(zone):
        fields.error(
            "trigger.timezone",
            f"there is no time zone '{clip(zone)}'",
            fields.at("timezone"),
            "a name such as UTC or Europe/Berlin",
        )
        return None
    return CronTrigger(cron=expression.strip(), timezone=zone, **_schedule(fields))


def _schedule(fields: Fields) -> dict[str, Any]:
    return {
        "params": _params(fields),
        "fuzzy_max_delay": fields.duration("fuzzy_max_delay", positive=False) or 0.0,
        "start": _moment(fields, "start"),
        "end": _moment(fields, "end"),
        "catch_up": fields.choice("catch_up", CatchUp, CatchUp.LAST),
    }


def _moment(fields: Fields, name: str) -> str | None:
    word = fields.text(name)
    if word is None:
        return None
    try:
        datetime.fromisoformat(word.strip())
    except ValueError:
        fields.error(
            "trigger.date", f"'{clip(word)}' is no date", fields.at(name), "2024-01-31 or 2024-01-31T06:00:00+01:00"
        )
        return None
    return word.strip()


def _interval(fields: Fields) -> Trigger | None:
    every = fields.duration("every")
    if every is None:
        if "every" not in fields:
            fields.error("trigger.interval", "an interval trigger needs a duration", fields.position, "every: 15m")
        return None
    if every < 1:
        fields.error("trigger.interval", "an interval must be at least one second", fields.at("every"))
        return None
    return IntervalTrigger(every=every, **_schedule(fields))


def _signal(fields: Fields) -> Trigger | None:
    signals: list[SignalCondition] = []
    if "name" in fields:
        signals.append(SignalCondition(fields.text("name") or "", read_match(fields), fields.texts("join_keys")))
    node = fields.get("signals")
    items = node.items if isinstance(node, ListNode) else [node] if node is not None else []
    for item in items:
        signals.extend(_conditions(item, fields.findings))
    if not signals:
        fields.error(
            "trigger.signal", "a signal trigger needs a signal's name", fields.position, "signal: {name: upstream_done}"
        )
        return None
    return SignalTrigger(
        signals=tuple(signals),
        condition=fields.text("condition"),
        dedup=fields.text("dedup"),
        params=_params(fields),
    )


def _conditions(item: Node, findings: Findings) -> list[SignalCondition]:
    """A name, ``{name, match_params}``, or a map ``name: {match_params}`` of several."""
    if isinstance(item, ScalarNode) and isinstance(item.value, str):
        return [SignalCondition(item.value)]
    if not isinstance(item, MapNode):
        findings.error("definition.wrong-type", f"a signal is a name or a map, this is {describe(item)}", item.position)
        return []
    if any(LEVELS["signal"].match(key) == "name" for key in item.entries):
        inner = Fields(item, "signal", findings)
        return [SignalCondition(inner.text("name") or "", read_match(inner), inner.texts("join_keys"))]
    found = []
    for entry in item.entries.values():
        if isinstance(entry.value, MapNode):
            inner = Fields(entry.value, "signal", findings)
            found.append(SignalCondition(entry.key, read_match(inner), inner.texts("join_keys")))
        elif isinstance(entry.value, ScalarNode) and entry.value.value is None:
            found.append(SignalCondition(entry.key))
        else:
            findings.error(
                "definition.wrong-type",
                f"'{clip(entry.key)}' must be a map, this is {describe(entry.value)}",
                entry.value.position,
            )
    return found


def _watermark(fields: Fields) -> Trigger | None:
    table = fields.text("table")
    if table is None:
        fields.error(
            "trigger.watermark",
            "a watermark trigger needs a table",
            fields.position,
            "watermark: {table: db.events, every: 1d}",
        )
        return None
    zone = fields.text("timezone") or "UTC"
    if not is_zone(zone):
        fields.error(
            "trigger.timezone",
            f"there is no time zone '{clip(zone)}'",
            fields.at("timezone"),
            "a name such as UTC or Europe/Berlin",
        )
        return None
    return WatermarkTrigger(
        table=table, every=fields.duration("every") or 24 * 3600.0, timezone=zone, params=_params(fields)
    )


def _incremental(fields: Fields) -> Trigger | None:
    operations = tuple(word.lower() for word in fields.texts("operations")) or ("append",)
    for word in operations:
        if word not in OPERATIONS:
            fields.error(
                "definition.unknown-value",
                f"'{clip(word)}' is no data operation",
                fields.at("operations"),
                suggestion(word, OPERATIONS, "operations"),
            )
    require = (fields.text("require") or "any").lower()
    if require not in ("any", "all"):
        fields.error("definition.unknown-value", f"'{clip(require)}' is neither any nor all", fields.at("require"))
    partitions = fields.map("partitions")
    return IncrementalTrigger(
        tables=fields.texts("tables"),
        consumer=fields.text("consumer"),
        min_rows=fields.whole("min_rows", least=1),
        min_files=fields.whole("min_files", least=1),
        min_bytes=fields.whole("min_bytes", least=1),
        max_age=fields.duration("max_age"),
        at_most_every=fields.duration("at_most_every"),
        quiet_period=fields.duration("quiet_period"),
        operations=operations,
        partitions=_partitions(partitions, fields) if partitions is not None else {},
        require=require,
        allow_cycle=fields.whole("allow_cycle", least=1, most=1000),
        params=_params(fields),
    )


def _partitions(node: MapNode, fields: Fields) -> dict[str, list[str | int | float | bool]]:
    """``column: value`` or ``column: [values]``: only changes in these partitions count."""
    found: dict[str, list[str | int | float | bool]] = {}
    for entry in node.entries.values():
        values = to_json(entry.value)
        values = values if isinstance(values, list) else [values]
        if not values or not all(isinstance(value, str | int | bool) for value in values):
            fields.error(
                "definition.wrong-type", f"'{clip(entry.key)}' must be a value or a list of values", entry.position
            )
        elif any(isinstance(value, int) and abs(value) >= 2**63 for value in values):
            fields.error("definition.out-of-range", "the number does not fit into 64 bits", entry.position)
        else:
            found[entry.key] = values
    return found


_READERS: dict[str, tuple[Callable[[Fields], Trigger | None], str]] = {
    "cron": (_cron, "cron"),
    "interval": (_interval, "every"),
    "signal": (_signal, "signals"),
    "watermark": (_watermark, "table"),
    "incremental": (_incremental, "tables"),
}
