"""Consumers, their checkpoints and captures; what a capture's steps have published."""

OPEN_CAPTURE = "state IN ('planned', 'pinned', 'built')"

UPGRADE = (
    """CREATE TABLE consumers (
        name TEXT PRIMARY KEY, workflow_id TEXT NOT NULL, version BIGINT NOT NULL, created_at DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE checkpoints (
        consumer TEXT NOT NULL REFERENCES consumers (name), source TEXT NOT NULL, ref TEXT NOT NULL, table_uuid TEXT NOT NULL,
        snapshot_id BIGINT NOT NULL, sequence_number BIGINT NOT NULL, schema_id INTEGER NOT NULL, capture_id TEXT,
        moved_at DOUBLE PRECISION NOT NULL, PRIMARY KEY (consumer, source))""",
    """CREATE TABLE captures (
        id TEXT PRIMARY KEY, consumer TEXT NOT NULL REFERENCES consumers (name), run_id TEXT NOT NULL, step_path TEXT NOT NULL,
        claim TEXT NOT NULL, state TEXT NOT NULL, base_version BIGINT NOT NULL, sources TEXT NOT NULL,
        released INTEGER NOT NULL, keep_seconds DOUBLE PRECISION NOT NULL, created_at DOUBLE PRECISION NOT NULL,
        built_at DOUBLE PRECISION, ended_at DOUBLE PRECISION)""",
    f"CREATE UNIQUE INDEX captures_open ON captures (consumer) WHERE {OPEN_CAPTURE}",
    "CREATE INDEX captures_by_run ON captures (run_id, step_path)",
    "CREATE INDEX captures_unreleased ON captures (released) WHERE released = 0",
    """CREATE TABLE publications (
        capture_id TEXT NOT NULL, step_path TEXT NOT NULL, iteration INTEGER NOT NULL, target TEXT NOT NULL,
        snapshot_id BIGINT NOT NULL, published_at DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (capture_id, step_path, iteration, target))""",
    """CREATE TABLE audits (
        seq {serial}, at DOUBLE PRECISION NOT NULL, who TEXT NOT NULL, verb TEXT NOT NULL, subject TEXT NOT NULL,
        details TEXT NOT NULL)""",
)
