"""What differs between two versions of a workflow, for people and for programs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.workflow.model import Json
from icefloe.workflow.step_types import BUILTIN, StepTypes
from icefloe.workflow.versions import WorkflowVersion
from icefloe.workflow.yaml_writer import to_yaml


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. ``path`` reads like ``steps.aggregate.settings.script``; None stands for "not there"."""

    path: str
    before: Json
    after: Json

    @property
    def kind(self) -> str:
        return "added" if self.before is None else "removed" if self.after is None else "changed"

    def to_dict(self) -> dict[str, Json]:
        return {"path": self.path, "kind": self.kind, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True)
class Diff:
    """All differences; empty when the two mean the same and have the same files."""

    changes: tuple[Change, ...]
    text: str

    def __bool__(self) -> bool:
        return bool(self.changes)

    def to_dict(self) -> dict[str, Json]:
        return {"changed": bool(self), "changes": [change.to_dict() for change in self.changes]}


def diff(
    old: WorkflowVersion, new: WorkflowVersion, types: StepTypes = BUILTIN, names: tuple[str, str] = ("pushed", "file")
) -> Diff:
    """Structured changes, and a unified diff of the canonical YAML of both, which calls them by ``names``."""
    before, after = _view(old), _view(new)
    changes = tuple(_changes("", before, after))
    lines = difflib.unified_diff(
        [*to_yaml(old.workflow, types).splitlines(), *_file_lines(old)],
        [*to_yaml(new.workflow, types).splitlines(), *_file_lines(new)],
        *names,
        lineterm="",
    )
    return Diff(changes, "\n".join(lines))


def _file_lines(version: WorkflowVersion) -> list[str]:
    return [f"# {file.key} sha256:{file.digest[:16]}" for file in version.files]


def _view(version: WorkflowVersion) -> dict[str, Json]:
    """The stored form with lists of named things as maps, so that one change is one change."""
    data = version.workflow.to_dict()
    data["files"] = {file.key: file.digest for file in version.files}
    named = _named(data)
    assert isinstance(named, dict)
    return named


def _named(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _named(value) for key, value in data.items()}
    if not isinstance(data, list):
        return data
    for key in ("id", "name"):
        names = [item.get(key) if isinstance(item, Mapping) else None for item in data]
        if data and all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return {str(name): _named(item) for name, item in zip(names, data, strict=True)}
    if data and all(isinstance(item, Mapping) and {"source", "target"} <= item.keys() for item in data):
        return {f"{item['source']} -> {item['target']} [{item.get('condition', '')}]": _named(item) for item in data}
    return data


def _changes(path: str, before: Any, after: Any) -> Iterator[Change]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        common = [key for key in before if key in after]
        if path.rpartition(".")[2] == "steps" and common != [key for key in after if key in before]:
            yield Change(f"{path} (order)", list(before), list(after))
        for key in dict.fromkeys((*before, *after)):
            inner = f"{path}.{key}" if path else key
            yield from _changes(inner, before.get(key), after.get(key))
    elif before != after or type(before) is not type(after):
        yield Change(path, before, after)
