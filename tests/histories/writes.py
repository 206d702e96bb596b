"""Operations that change rows."""

from __future__ import annotations

import pyarrow as pa

from tests.histories.evolution import draw_field, spelled
from tests.histories.history import History, Row
from tests.histories.kinds import arrow_value


def _insert(h: History, target: str, rows: dict[int, Row]) -> None:
    select = h.values(rows.values())
    if len(rows) > 1 and h.rng.random() < 0.6:
        select = select.replace("SELECT ", f"SELECT /*+ REPARTITION({h.rng.randint(2, 3)}) */ ", 1)
    h.sql(f"INSERT INTO {target} {select}")


def append(h: History) -> None:
    rows = h.draw_rows(h.rng.randint(1, 5))
    _insert(h, h.name, rows)
    h.observe(rows)


def append_nothing(h: History) -> None:
    _insert(h, h.name, {})
    h.observe()


def second_writer_can(h: History) -> bool:
    """PyIceberg 0.12 writes Parquet into v1 and v2 tables."""
    plain = all(f.transform == "identity" for f in h.fields) and not h.past_fields
    return h.version < 3 and h.properties["write.format.default"] == "parquet" and plain and h.head is not None


def append_by_second_writer(h: History) -> None:
    """PyIceberg appends: other manifests, other metrics, another spelling of paths."""
    rows = h.draw_rows(h.rng.randint(1, 3))
    table = h.catalog.load_table(h.name)
    schema = table.schema().as_arrow()
    records = [{c.name: arrow_value(c.kind, row.get(c.key)) for c in h.columns} for row in rows.values()]
    h.transcript.append(f"-- PyIceberg: load_table({h.name!r}).append({records!r})")
    table.append(pa.Table.from_pylist(records, schema=schema))
    h.observe(rows)


def overwrite_partitions(h: History) -> None:
    """INSERT OVERWRITE under Spark's dynamic mode: the partitions that get rows are replaced."""
    rows = h.draw_rows(h.rng.randint(1, 3))
    h.sql(f"INSERT OVERWRITE {h.name} {h.values(rows.values())}")
    h.observe(rows)


def overwrite_statically(h: History) -> None:
    """INSERT OVERWRITE under Spark's default static mode: the whole table, or one named partition."""
    rows = h.draw_rows(h.rng.randint(0, 3))
    h.conf("spark.sql.sources.partitionOverwriteMode", "static")
    try:
        h.sql(f"INSERT OVERWRITE {h.name} {h.values(rows.values())}")
    finally:
        h.conf("spark.sql.sources.partitionOverwriteMode", "dynamic")
    h.observe(rows)


def _some_rids(h: History) -> list[int]:
    live = sorted(h.commits[h.head].live) if h.head else []
    return h.rng.sample(live, min(len(live), h.rng.randint(1, 3)))


def _choose_mode(h: History) -> None:
    """Copy-on-write or merge-on-read for the next row-level operation; v1 has no delete files."""
    mode = h.rng.choice(["copy-on-write", "merge-on-read"]) if h.version > 1 else "copy-on-write"
    if mode != h.properties.get("write.delete.mode"):
        changed = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
        h.properties.update(changed)
        pairs = ", ".join(f"'{k}'='{v}'" for k, v in changed.items())
        h.sql(f"ALTER TABLE {h.name} SET TBLPROPERTIES ({pairs})")
    h.done[f"mode {mode}"] += 1


def delete(h: History) -> None:
    _choose_mode(h)
    rids = _some_rids(h) or [0]
    h.sql(f"DELETE FROM {h.name} WHERE {h.rid.sql} IN ({', '.join(map(str, rids))})")
    h.observe()


def update(h: History) -> None:
    _choose_mode(h)
    rids = _some_rids(h) or [0]
    others = [c for c in h.columns if c.key != 1]
    if not others:
        return
    column = h.rng.choice(others)
    value = h.draw_value(column.kind) if h.rng.random() < 0.8 else None
    live = h.commits[h.head].live if h.head else {}
    changed = {rid: {**live[rid], column.key: value} for rid in rids if rid in live}
    h.sql(
        f"UPDATE {h.name} SET {column.sql} = {column.kind.sql_of(value)} WHERE {h.rid.sql} IN ({', '.join(map(str, rids))})"
    )
    h.observe(changed)


def merge(h: History) -> None:
    """Some keys match and are updated or deleted, some are new."""
    _choose_mode(h)
    live = h.commits[h.head].live if h.head else {}
    rows = h.draw_rows(h.rng.randint(1, 2))
    for rid in _some_rids(h):
        rows[rid] = {**next(iter(h.draw_rows(1).values())), 1: rid}
    clauses = h.rng.choice(
        [
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            f"WHEN MATCHED AND t.{h.rid.sql} % 2 = 0 THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        ]
    )
    if "DELETE" in clauses:
        rows_after = {rid: live.get(rid, row) for rid, row in rows.items()}
    else:
        rows_after = rows
    h.sql(f"MERGE INTO {h.name} t USING ({h.values(rows.values())}) s ON t.{h.rid.sql} = s.{h.rid.sql} {clauses}")
    h.observe(rows_after)


def merge_of_new_keys(h: History) -> None:
    """A MERGE in which nothing matches: Iceberg commits it as an append."""
    _choose_mode(h)
    rows = h.draw_rows(h.rng.randint(1, 3))
    h.sql(
        f"MERGE INTO {h.name} t USING ({h.values(rows.values())}) s ON t.{h.rid.sql} = s.{h.rid.sql}"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    h.observe(rows)


def merge_insert_only(h: History) -> None:
    """A MERGE without a MATCHED clause, half of its keys known already."""
    _choose_mode(h)
    live = h.commits[h.head].live if h.head else {}
    rows = {**h.draw_rows(2), **{rid: live[rid] for rid in _some_rids(h)}}
    h.sql(
        f"MERGE INTO {h.name} t USING ({h.values(rows.values())}) s ON t.{h.rid.sql} = s.{h.rid.sql} WHEN NOT MATCHED THEN INSERT *"
    )
    h.observe(rows)


def delete_whole_files(h: History) -> None:
    """A DELETE that Iceberg answers by dropping files: by partition where there is one, else everything."""
    identity = [f for f in h.fields if f.transform == "identity"]
    live = h.commits[h.head].live if h.head else {}
    if identity and live:
        column = h.column(h.rng.choice(identity).column)
        value = h.rng.choice(list(live.values())).get(column.key)
        condition = f"{column.sql} IS NULL" if value is None else f"{column.sql} = {column.kind.sql_of(value)}"
        h.sql(f"DELETE FROM {h.name} WHERE {condition}")
    else:
        h.sql(f"DELETE FROM {h.name} WHERE {h.rid.sql} >= 0")
    h.observe()


def truncate(h: History) -> None:
    h.sql(f"TRUNCATE TABLE {h.name}")
    h.observe()


def write_to_branch(h: History) -> None:
    branch = h.rng.choice(h.branches)
    if h.rng.random() < 0.7:
        rows = h.draw_rows(h.rng.randint(1, 3))
        _insert(h, f"{h.name}.branch_{branch}", rows)
        h.observe(rows)
        return
    _choose_mode(h)
    live = sorted(h.commits[h.refs[branch]].live) or [0]
    h.sql(f"DELETE FROM {h.name}.branch_{branch} WHERE {h.rid.sql} = {h.rng.choice(live)}")
    h.observe()


def stage(h: History) -> None:
    """A write-audit-publish commit: in the metadata, on no ref."""
    h.sql(f"ALTER TABLE {h.name} SET TBLPROPERTIES ('write.wap.enabled'='true')")
    rows = h.draw_rows(h.rng.randint(1, 3))
    h.conf("spark.wap.id", h.label("wap"))
    verb = "INSERT OVERWRITE" if h.rng.random() < 0.2 else "INSERT INTO"
    try:
        h.sql(f"{verb} {h.name} {h.values(rows.values())}")
    finally:
        h.conf("spark.wap.id", None)
        h.sql(f"ALTER TABLE {h.name} UNSET TBLPROPERTIES ('write.wap.enabled')")
    h.staged += [commit.id for commit in h.observe(rows)]


def replace_table(h: History) -> None:
    """CREATE OR REPLACE: the uuid stays, the chain starts again without a parent."""
    rows = h.draw_rows(h.rng.randint(1, 3))
    h.past_fields += h.fields
    h.fields = [f for f in [draw_field(h)] if f and h.rng.random() < 0.5]
    h.ever_partitioned_by |= {f.column for f in h.fields}
    by = f" PARTITIONED BY ({', '.join(spelled(h, f) for f in h.fields)})" if h.fields else ""
    pairs = ", ".join(f"'{k}'='{v}'" for k, v in h.properties.items())
    if h.rng.random() < 0.3:
        columns = ", ".join(f"{c.sql} {c.kind.sql}" for c in h.columns)
        h.sql(f"CREATE OR REPLACE TABLE {h.name} ({columns}) USING iceberg{by} TBLPROPERTIES ({pairs})")
        rows = {}
    else:
        h.sql(
            f"CREATE OR REPLACE TABLE {h.name} USING iceberg{by} TBLPROPERTIES ({pairs}) AS {h.values(rows.values())}"
        )
    h.staged = []
    h.observe(rows)
