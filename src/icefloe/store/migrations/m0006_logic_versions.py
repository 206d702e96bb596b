"""The SELECTs that planned writes have published to their targets."""

UPGRADE = (
    """CREATE TABLE logic_versions (
        seq {serial}, workflow_id TEXT NOT NULL, place TEXT NOT NULL, target TEXT NOT NULL, ref TEXT NOT NULL,
        fingerprint TEXT NOT NULL, text TEXT NOT NULL, columns TEXT, root_id TEXT NOT NULL, recorded_at DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX logic_versions_by_place ON logic_versions (workflow_id, place, target, ref, seq)",
)
