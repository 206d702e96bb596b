"""Operations on the table's definition: columns, partition fields, format version, properties."""

from __future__ import annotations

from dataclasses import replace

from tests.histories.history import NAMES, Column, History, PartitionField
from tests.histories.kinds import KINDS


def add_column(h: History) -> None:
    column = h.new_column(h.draw_kind())
    place = h.rng.choice(["", " FIRST", f" AFTER {h.rng.choice(h.columns).sql}"])
    h.sql(f"ALTER TABLE {h.name} ADD COLUMN {column.sql} {column.kind.sql}{place}")
    if place == "":
        h.columns.append(column)
    elif place == " FIRST":
        h.columns.insert(0, column)
    else:
        after = [c.sql for c in h.columns].index(place.removeprefix(" AFTER "))
        h.columns.insert(after + 1, column)


def droppable(h: History) -> list[Column]:
    # A column that any spec of the table's past was built on stays: Iceberg 1.12 cannot list entries (v2, v3) or
    # write (v1) once it is gone.
    return [c for c in h.columns if c.key != 1 and c.key not in h.ever_partitioned_by]


def drop_column(h: History) -> None:
    column = h.rng.choice(droppable(h))
    h.sql(f"ALTER TABLE {h.name} DROP COLUMN {column.sql}")
    h.columns.remove(column)


def readd_column(h: History) -> None:
    """Drop a column and add another of the same name: a new column to Iceberg, whose old values must not come back."""
    old = h.rng.choice(droppable(h))
    h.sql(f"ALTER TABLE {h.name} DROP COLUMN {old.sql}")
    h.columns.remove(old)
    new = h.named_column(old.name, old.kind if h.rng.random() < 0.5 else h.draw_kind())
    h.sql(f"ALTER TABLE {h.name} ADD COLUMN {new.sql} {new.kind.sql}")
    h.columns.append(new)


def rename_column(h: History) -> None:
    position = h.rng.randrange(len(h.columns))
    taken = {c.name.lower() for c in h.columns}
    new = replace(h.columns[position], name=h.rng.choice([n for n in NAMES if n.lower() not in taken]))
    h.sql(f"ALTER TABLE {h.name} RENAME COLUMN {h.columns[position].sql} TO {new.sql}")
    h.columns[position] = new


def reorder_columns(h: History) -> None:
    column, other = h.rng.sample(h.columns, 2)
    h.sql(f"ALTER TABLE {h.name} ALTER COLUMN {column.sql} AFTER {other.sql}")
    h.columns.remove(column)
    h.columns.insert(h.columns.index(other) + 1, column)


def promotable(h: History) -> list[Column]:
    return [c for c in h.columns if c.kind.grows_to]


def promote_column(h: History) -> None:
    column = h.rng.choice(promotable(h))
    kind = KINDS[h.rng.choice(column.kind.grows_to)]
    h.sql(f"ALTER TABLE {h.name} ALTER COLUMN {column.sql} TYPE {kind.sql}")
    h.columns[h.columns.index(column)] = replace(column, kind=kind)


def draw_field(h: History) -> PartitionField | None:
    taken = {f.column for f in h.fields}
    choices = [(c, t) for c in h.columns for t in c.kind.transforms if c.key not in taken and c.key != 1]
    if not choices:
        return None
    column, transform = h.rng.choice(choices)
    width = h.rng.choice([2, 4]) if transform in ("bucket", "truncate") else None
    return PartitionField(column.key, transform, width)


def spelled(h: History, field: PartitionField) -> str:
    column = h.column(field.column).sql
    if field.transform == "identity":
        return column
    return f"{field.transform}({column})" if field.width is None else f"{field.transform}({field.width}, {column})"


def add_partition_field(h: History) -> None:
    field = draw_field(h)
    if field is None:
        return
    # A name of its own: the default one may be taken by a field or a column of the past.
    h.sql(f"ALTER TABLE {h.name} ADD PARTITION FIELD {spelled(h, field)} AS `{h.label('p')}`")
    h.fields.append(field)
    h.ever_partitioned_by.add(field.column)


def drop_partition_field(h: History) -> None:
    field = h.rng.choice(h.fields)
    h.sql(f"ALTER TABLE {h.name} DROP PARTITION FIELD {spelled(h, field)}")
    h.fields.remove(field)
    h.past_fields.append(field)


def replace_partition_field(h: History) -> None:
    old, new = h.rng.choice(h.fields), draw_field(h)
    if new is None:
        return
    h.sql(f"ALTER TABLE {h.name} REPLACE PARTITION FIELD {spelled(h, old)} WITH {spelled(h, new)} AS `{h.label('p')}`")
    h.fields[h.fields.index(old)] = new
    h.past_fields.append(old)
    h.ever_partitioned_by.add(new.column)


def upgrade(h: History) -> None:
    h.version += 1
    h.properties["format-version"] = str(h.version)
    h.sql(f"ALTER TABLE {h.name} SET TBLPROPERTIES ('format-version'='{h.version}')")


def change_metrics(h: History) -> None:
    """What bounds later files carry: none, counts only, short ones, or whole values."""
    mode = h.rng.choice(["none", "counts", "truncate(3)", "truncate(16)", "full"])
    h.properties["write.metadata.metrics.default"] = mode
    h.sql(f"ALTER TABLE {h.name} SET TBLPROPERTIES ('write.metadata.metrics.default'='{mode}')")


def change_sort_order(h: History) -> None:
    column = h.rng.choice([c for c in h.columns if c.kind.bounded])
    h.sql(f"ALTER TABLE {h.name} WRITE ORDERED BY {column.sql}")
    h.ever_partitioned_by.add(column.key)  # and so may not be dropped
