"""Triggers' cursors, signals, watermarks, incidents, schedulers; workflows that are off, and failures that are forgiven."""

UPGRADE = (
    "ALTER TABLE workflows ADD COLUMN active INTEGER NOT NULL DEFAULT 1",
    "ALTER TABLE workflows ADD COLUMN forgiven BIGINT NOT NULL DEFAULT 0",
    """CREATE TABLE triggers (
        workflow_id TEXT NOT NULL REFERENCES workflows (id), name TEXT NOT NULL, kind TEXT NOT NULL, since DOUBLE PRECISION NOT NULL,
        state TEXT NOT NULL, version BIGINT NOT NULL, last_run TEXT, last_at DOUBLE PRECISION, PRIMARY KEY (workflow_id, name))""",
    """CREATE TABLE signals (
        seq {serial}, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, params TEXT NOT NULL, publisher TEXT NOT NULL,
        published_at DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX signals_by_name ON signals (name, seq)",
    """CREATE TABLE watermarks (
        source TEXT PRIMARY KEY, valid_through DOUBLE PRECISION NOT NULL, publisher TEXT NOT NULL, set_at DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE incidents (
        seq {serial}, workflow_id TEXT NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL, message TEXT NOT NULL,
        opened_at DOUBLE PRECISION NOT NULL, closed_at DOUBLE PRECISION, told TEXT NOT NULL, claim TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX incidents_open ON incidents (workflow_id, kind, subject) WHERE closed_at IS NULL",
    "CREATE INDEX incidents_untold ON incidents (told) WHERE told <> 'over'",
    """CREATE TABLE schedulers (
        id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, started_at DOUBLE PRECISION NOT NULL,
        seen_at DOUBLE PRECISION NOT NULL, trouble TEXT)""",
    "CREATE INDEX steps_waiting ON steps (run_id) WHERE status = 'WAITING_FOR_SIGNALS'",
)
