"""What is due to go: captures by the time they are released, runs by their end; who cleans up, and what went.

``past_occasions`` keeps what runs that are deleted were started for, so that nothing is started twice for it; ``savings_totals`` what
deleted lines of the savings ledger come to.
"""

from icefloe.store.migrations.m0002_captures import OPEN_CAPTURE

UPGRADE = (
    "ALTER TABLE captures ADD COLUMN pinned_batches INTEGER",
    "ALTER TABLE captures ADD COLUMN settled INTEGER NOT NULL DEFAULT 1",
    "ALTER TABLE captures ADD COLUMN release_at DOUBLE PRECISION",
    "UPDATE captures SET settled = 0 WHERE state = 'committed' AND released = 0",
    f"""UPDATE captures SET release_at = CASE WHEN state = 'committed' THEN ended_at + keep_seconds ELSE ended_at END
        WHERE released = 0 AND NOT ({OPEN_CAPTURE})""",
    "DROP INDEX captures_unreleased",
    "CREATE INDEX captures_to_release ON captures (release_at) WHERE release_at IS NOT NULL",
    "CREATE INDEX captures_unsettled ON captures (consumer) WHERE settled = 0",
    "CREATE INDEX captures_by_consumer ON captures (consumer, created_at)",
    "CREATE INDEX captures_by_end ON captures (ended_at)",
    "CREATE INDEX captures_by_version ON captures (consumer, state, base_version)",
    "CREATE INDEX captures_by_state_and_end ON captures (consumer, state, ended_at)",
    "CREATE INDEX runs_by_end ON runs (ended_at)",
    "CREATE INDEX audits_by_subject ON audits (subject, seq)",
    """CREATE TABLE past_occasions (
        workflow_id TEXT NOT NULL, occasion TEXT NOT NULL, run_id TEXT NOT NULL, run_ended_at DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (workflow_id, occasion))""",
    "CREATE INDEX past_occasions_by_end ON past_occasions (run_ended_at)",
    """CREATE TABLE savings_totals (
        workflow_id TEXT NOT NULL, step TEXT NOT NULL, target TEXT NOT NULL, runs BIGINT NOT NULL, read_files BIGINT NOT NULL,
        read_rows BIGINT NOT NULL, read_bytes BIGINT NOT NULL, instead_files BIGINT NOT NULL, instead_rows BIGINT NOT NULL,
        instead_bytes BIGINT NOT NULL, written_files BIGINT NOT NULL, written_rows BIGINT NOT NULL, written_bytes BIGINT NOT NULL,
        written_delete_files BIGINT NOT NULL, seconds DOUBLE PRECISION NOT NULL, timed BIGINT NOT NULL, compared_with TEXT NOT NULL,
        notes TEXT NOT NULL, first_at DOUBLE PRECISION NOT NULL, last_at DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (workflow_id, step, target))""",
    """CREATE TABLE janitor (
        name TEXT PRIMARY KEY, holder TEXT, beat BIGINT NOT NULL, rounds BIGINT NOT NULL, seen_at DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE prunings (
        seq {serial}, at DOUBLE PRECISION NOT NULL, holder TEXT NOT NULL, kind TEXT NOT NULL, items BIGINT NOT NULL,
        bytes BIGINT NOT NULL, seconds DOUBLE PRECISION NOT NULL, error TEXT)""",
    "CREATE INDEX prunings_by_time ON prunings (at)",
)
