"""The rules that :mod:`icefloe.planner.influence` puts together: what one clause does to maps, and how names are found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from icefloe.planner.functions import is_aggregate, is_generator
from icefloe.planner.relation import Maps, Relation, RelationColumn, UnclearError, place_of, shifted


def anything(relation: Relation) -> Relation:
    """Any row may come or go."""
    return replace(
        relation,
        maps={occurrence_id: {} for occurrence_id in relation.maps},
        linear=frozenset(),
        grows=frozenset(),
        unions=(),
    )


def mapped(value: exp.Expr, atoms: list[list[exp.Expr]], maps: Mapping[int, exp.Expr]) -> exp.Expr | None:
    """A value over an occurrence's own columns; ``atoms`` are what it may be made of, window over grouping over columns."""
    if atoms:
        if value in atoms[-1]:
            return mapped(value, atoms[:-1], maps)
    else:
        at = place_of(value)
        if at is not None:
            mapping = maps.get(at)
            return mapping.copy() if mapping is not None else None
    if isinstance(value, exp.Column | exp.Window | exp.Star) or is_aggregate(value) or is_generator(value):
        return None
    built = value.copy()
    for key, child in list(built.args.items()):
        if isinstance(child, exp.Expr):
            part = mapped(child, atoms, maps)
            if part is None:
                return None
            built.set(key, part)
        elif isinstance(child, list) and any(isinstance(item, exp.Expr) for item in child):
            parts = [mapped(item, atoms, maps) if isinstance(item, exp.Expr) else item for item in child]
            if any(part is None for part in parts):
                return None
            built.set(key, parts)
    return built


def enriched(maps: Maps, equal: Sequence[tuple[int, int]]) -> Maps:
    """Rows in which two columns are equal: what is known of one is known of the other."""
    out = {occurrence_id: dict(columns) for occurrence_id, columns in maps.items()}
    for columns in out.values():
        for _ in equal:  # as often as a value may have to be handed on
            for a, b in equal:
                if a in columns:
                    columns.setdefault(b, columns[a])
                elif b in columns:
                    columns.setdefault(a, columns[b])
    return out


def carried(maps: Mapping[int, exp.Expr], across: Sequence[tuple[int, int]], *, to_left: bool) -> dict[int, exp.Expr]:
    """What the equalities of an outer or semi join say of the other side's columns."""
    pairs = [(left, right) if to_left else (right, left) for left, right in across]
    return {to_index: maps[from_index] for to_index, from_index in pairs if from_index in maps}


def with_using(joined: Relation, both: Relation, using: Sequence[str], equal: Sequence[tuple[int, int]]) -> Relation:
    """The columns that USING merges come first and hide their two halves."""
    if len(equal) != len(using):
        raise UnclearError("JOIN USING columns of different types")
    count = len(using)
    halves = {index for pair in equal for index in pair}
    hidden = tuple(
        replace(place, hidden=True) if index in halves else place for index, place in enumerate(joined.columns)
    )
    maps = shifted(joined.maps, count)
    for number, (left, right) in enumerate(equal):
        for occurrence_id, columns in both.maps.items():
            # Both halves of a matched row are equal, and an unmatched row shows the half that is there.
            expression = columns.get(left, columns.get(right))
            if expression is not None and occurrence_id in maps:
                maps[occurrence_id][number] = expression
    places = tuple(RelationColumn(None, both.columns[left].name, both.columns[left].type) for left, _ in equal)
    return replace(joined, columns=places + hidden, maps=maps)


def named(relation: Relation, alias: exp.Expr | None, fallback: str | None = None) -> Relation:
    """The relation under an alias, with the column names that the alias gives."""
    name = (alias.name if alias is not None else "") or fallback
    names = [column.name for column in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if names and len(names) != len(relation.columns):
        raise UnclearError(f"{name} has another number of column names than columns")
    places = tuple(
        RelationColumn(name or place.qualifier, names[index] if names else place.name, place.type)
        for index, place in enumerate(relation.columns)
        if not place.hidden or names
    )
    if len(places) != len(relation.columns):
        raise UnclearError("JOIN USING in brackets")
    return replace(relation, columns=places)


def equality(node: exp.Expr) -> tuple[int, int] | None:
    if not isinstance(node, exp.EQ):
        return None
    a, b = place_of(node.this), place_of(node.expression)
    return (a, b) if a is not None and b is not None else None


def same_type(a: RelationColumn, b: RelationColumn) -> bool:
    """Columns of different types are compared after a conversion: they may be equal without being the same."""
    return a.type is not None and a.type == b.type


def conjuncts(node: exp.Expr | None) -> Iterator[exp.Expr]:
    if node is None:
        return
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    elif isinstance(node, exp.Paren):
        yield from conjuncts(node.this)
    else:
        yield node


def topmost_queries(node: exp.Expr) -> list[exp.Expr]:
    queries: list[exp.Expr] = []
    for part in node.iter_expressions():
        if isinstance(part, exp.Query) and not isinstance(part, exp.Subquery):
            queries.append(part)
        else:
            queries += topmost_queries(part)
    return queries


def type_of(node: exp.Expr) -> str | None:
    """The type of a few plain expressions; ``None``: not known, which is never taken for equal."""
    if isinstance(node, exp.Paren):
        return type_of(node.this)
    if isinstance(node, exp.Literal):
        return "string" if node.is_string else "int" if node.is_int else None
    if isinstance(node, exp.Cast):
        words = {
            "DATE": "date",
            "TEXT": "string",
            "VARCHAR": "string",
            "BIGINT": "long",
            "INT": "int",
            "DOUBLE": "double",
        }
        return words.get(node.to.this.name if isinstance(node.to.this, exp.DataType.Type) else "")
    if isinstance(node, exp.TsOrDsToDate):
        return "date"
    return "string" if isinstance(node, exp.Upper | exp.Lower | exp.Trim | exp.Substring) else None


def has_aggregate(node: exp.Expr) -> bool:
    return any(is_aggregate(part) for part in node.walk())


def default_name(node: exp.Expr) -> str:
    return node.output_name or node.sql(dialect="spark").lower()


def find(columns: Sequence[RelationColumn], qualifier: str | None, name: str) -> int:
    index = seek(columns, qualifier, name)
    if index is None:
        raise UnclearError(f"the column {name}")
    return index


def seek(columns: Sequence[RelationColumn], qualifier: str | None, name: str) -> int | None:
    matches = [
        index
        for index, place in enumerate(columns)
        if place.name.lower() == name.lower()
        and (not place.hidden if qualifier is None else (place.qualifier or "").lower() == qualifier.lower())
    ]
    if len(matches) > 1:
        raise UnclearError(f"the column {name} stands for several")
    return matches[0] if matches else None
