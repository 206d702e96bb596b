"""The Spark sessions that attempts have opened; how often a step was begun anew."""

UPGRADE = (
    """CREATE TABLE spark_sessions (
        session_id TEXT PRIMARY KEY, work TEXT NOT NULL, run_id TEXT NOT NULL, step_id TEXT NOT NULL, branch TEXT NOT NULL,
        opened_at DOUBLE PRECISION NOT NULL, gone_at DOUBLE PRECISION)""",
    "CREATE INDEX spark_sessions_open ON spark_sessions (work) WHERE gone_at IS NULL",
    "ALTER TABLE steps ADD COLUMN era INTEGER NOT NULL DEFAULT 0",
)
