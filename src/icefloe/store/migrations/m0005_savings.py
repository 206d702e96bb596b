"""The savings ledger: what each planned write read and wrote, against what it stands in for would have read."""

UPGRADE = (
    """CREATE TABLE savings (
        root_id TEXT NOT NULL, place TEXT NOT NULL, target TEXT NOT NULL, workflow_id TEXT NOT NULL, step TEXT NOT NULL,
        pattern TEXT NOT NULL, compared_with TEXT NOT NULL, read_files BIGINT NOT NULL, read_rows BIGINT NOT NULL,
        read_bytes BIGINT NOT NULL, instead_files BIGINT NOT NULL, instead_rows BIGINT NOT NULL, instead_bytes BIGINT NOT NULL,
        written_files BIGINT NOT NULL, written_rows BIGINT NOT NULL, written_bytes BIGINT NOT NULL,
        written_delete_files BIGINT NOT NULL, seconds DOUBLE PRECISION, notes TEXT NOT NULL, recorded_at DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (root_id, place, target))""",
    "CREATE INDEX savings_by_workflow ON savings (workflow_id, recorded_at)",
    "CREATE INDEX savings_by_time ON savings (recorded_at)",
)
