"""Schemas and partition specs as the metadata's JSON has them, looked up by id and by name.

PyIceberg's own schema classes are not used here: they do not know every type of format v3 (``variant`` in 0.12), and a
capture must not fail over a column nobody asks about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from icefloe.lake.errors import ColumnNotFoundError


@dataclass(frozen=True)
class Field:
    """One column or struct member. ``type`` is the spec's word: ``int``, ``decimal(9,2)``, ``struct``, ``list``, ``map``."""

    id: int
    path: tuple[str, ...]
    type: str
    initial_default: Any = None

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def is_primitive(self) -> bool:
        return self.type not in ("struct", "list", "map")


@dataclass(frozen=True)
class Schema:
    """A schema by field id. Members of lists and maps are left out: Iceberg keeps no bounds for them."""

    id: int
    fields: Mapping[int, Field]

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Schema:
        fields: dict[int, Field] = {}

        def visit(struct: Mapping[str, Any], prefix: tuple[str, ...]) -> None:
            for member in struct["fields"]:
                path = (*prefix, member["name"])
                kind = member["type"]
                word = kind if isinstance(kind, str) else kind["type"]
                fields[member["id"]] = Field(member["id"], path, word, member.get("initial-default"))
                if word == "struct":
                    visit(kind, path)

        visit(raw, ())
        return cls(raw.get("schema-id", 0), fields)

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields.values()}

    def find(self, name: str, *, table: str) -> Field:
        """A column by its name, as Spark finds it: exactly, else without regard to case."""
        exact = self._by_name.get(name)
        if exact is not None:
            return exact
        alike = [field for field in self.fields.values() if field.name.lower() == name.lower()]
        if len(alike) == 1:
            return alike[0]
        near = get_close_matches(name, self._by_name, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the columns are: {', '.join(list(self._by_name)[:20])}"
        raise ColumnNotFoundError(f"there is no column {name!r}", where=table, hint=hint)


@dataclass(frozen=True)
class PartitionField:
    """One field of a partition spec: ``transform`` of the column with ``source_id``."""

    id: int
    name: str
    source_id: int
    transform: str


@dataclass(frozen=True)
class PartitionSpec:
    id: int
    fields: tuple[PartitionField, ...]

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> PartitionSpec:
        return cls.of(raw.get("spec-id", 0), raw["fields"])

    @classmethod
    def of(cls, spec_id: int, fields: list[Mapping[str, Any]]) -> PartitionSpec:
        return cls(
            spec_id,
            tuple(
                # v1 specs may lack field ids: they are then 1000 and counting, by the spec.
                PartitionField(
                    field.get("field-id", 1000 + position),
                    field["name"],
                    field["source-id"] if "source-id" in field else field["source-ids"][0],
                    field["transform"],
                )
                for position, field in enumerate(fields)
            ),
        )
