"""Triggers as written in YAML.

``Trigger:`` is one trigger, a list of them, or a map with several kinds in it; any of them starts a run::

    Trigger: {cron: '@daily', timezone: Europe/Berlin}
    Trigger: {incremental: {tables: [db.playback], at_most_every: 15m}}
    Trigger: [{every: 15m}, {signal: {name: upstream_done, match_params: {region: eu}}}]
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from icefloe.workflow.declarations import declaration, declared
from icefloe.workflow.document import Entry, ListNode, MapNode, Node, ScalarNode, describe, to_json
from icefloe.workflow.field_types import InvalidValueError, partition_values
from icefloe.workflow.fields import Fields
from icefloe.workflow.model import (
    TRIGGER_KINDS,
    CronTrigger,
    IntervalTrigger,
    SignalCondition,
    SignalTrigger,
    Trigger,
    WatermarkTrigger,
)
from icefloe.workflow.places import Places
from icefloe.workflow.problems import Findings, suggestion
from icefloe.workflow.reserved import LEVELS
from icefloe.workflow.values import clip
from icefloe.workflow.yaml_signals import read_match, read_nested_params


def read_triggers(node: Node, findings: Findings, places: Places) -> tuple[Trigger, ...]:
    """All triggers in a ``Trigger:`` value."""
    items = node.items if isinstance(node, ListNode) else [node]
    triggers: list[Trigger] = []
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
            triggers.append(trigger)
            places.triggers.append(item.position)
    return tuple(triggers)


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
    triggers = []
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
        cls = TRIGGER_KINDS[name]
        trigger = _trigger(cls, _fields(entry, beside, f"{name} trigger", declaration(cls, cls.bare).key, findings))
        if trigger is not None:
            triggers.append(trigger)
    return triggers


def _fields(entry: Entry, beside: dict[str, Entry], level: str, main: str, findings: Findings) -> Fields:
    """Options stand below the kind's key or beside it; a value that is no map is the kind's main option."""
    options = dict(beside)
    if isinstance(entry.value, MapNode):
        options |= entry.value.entries
    elif not (isinstance(entry.value, ScalarNode) and entry.value.value in (None, True)):
        options[main] = Entry(main, entry.position, entry.value)
    return Fields(MapNode(entry.position, options), level, findings)


_NEEDS: dict[type[Trigger], tuple[str, str, str]] = {
    CronTrigger: ("trigger.cron", "a cron trigger needs an expression", "cron: '0 3 * * *'"),
    IntervalTrigger: ("trigger.interval", "an interval trigger needs a duration", "every: 15m"),
    SignalTrigger: ("trigger.signal", "a signal trigger needs a signal's name", "signal: {name: upstream_done}"),
    WatermarkTrigger: (
        "trigger.watermark",
        "a watermark trigger needs a table",
        "watermark: {table: db.events, every: 1d}",
    ),
}


def _trigger(cls: Any, fields: Fields) -> Trigger | None:
    values = fields.values(cls)
    if cls is SignalTrigger:
        values["signals"] = _signals(fields)
    if "partitions" in fields:
        values["partitions"] = _partitions(fields)
    for item in declared(cls):
        if item.is_required and values.get(item.name) in (None, ()):
            if item.key not in fields or item.name == "signals":
                code, message, hint = _NEEDS[cls]
                fields.error(code, message, fields.position, hint)
            return None
    trigger: Trigger = cls(**values, params=read_nested_params(fields))
    return trigger


def _signals(fields: Fields) -> tuple[SignalCondition, ...]:
    """``signal: {name: …}``, and the lists and maps under ``signals:``."""
    signals = [_condition(fields)] if "name" in fields else []
    node = fields.get("signals")
    items = node.items if isinstance(node, ListNode) else [node] if node is not None else []
    for item in items:
        signals.extend(_conditions(item, fields.findings))
    return tuple(signals)


def _condition(fields: Fields) -> SignalCondition:
    return SignalCondition(**{"name": "", **fields.values(SignalCondition)}, match=read_match(fields))


def _conditions(item: Node, findings: Findings) -> list[SignalCondition]:
    """A name, ``{name, match_params}``, or a map ``name: {match_params}`` of several."""
    if isinstance(item, ScalarNode) and isinstance(item.value, str):
        return [SignalCondition(item.value)]
    if not isinstance(item, MapNode):
        findings.error("definition.wrong-type", f"a signal is a name or a map, this is {describe(item)}", item.position)
        return []
    if any(LEVELS["signal"].match(key) == "name" for key in item.entries):
        return [_condition(Fields(item, "signal", findings))]
    conditions = []
    for entry in item.entries.values():
        if isinstance(entry.value, MapNode):
            conditions.append(replace(_condition(Fields(entry.value, "signal", findings)), name=entry.key))
        elif isinstance(entry.value, ScalarNode) and entry.value.value is None:
            conditions.append(SignalCondition(entry.key))
        else:
            findings.error(
                "definition.wrong-type",
                f"'{clip(entry.key)}' must be a map, this is {describe(entry.value)}",
                entry.value.position,
            )
    return conditions


def _partitions(fields: Fields) -> dict[str, list[str | int | bool]]:
    """``column: value`` or ``column: [values]``: only changes in these partitions count."""
    node = fields.map("partitions")
    partitions = {}
    for entry in node.entries.values() if node is not None else ():
        try:
            partitions[entry.key] = partition_values(entry.key, to_json(entry.value))
        except InvalidValueError as error:
            fields.error(error.code, str(error), entry.position)
    return partitions
