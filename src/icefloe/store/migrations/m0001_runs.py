"""Workflows, their versions and files; runs, steps, attempts, events, logs; workers."""

ACTIVE_RUN = "status IN ('CREATED', 'IN_PROGRESS', 'PAUSED')"
READY_STEP = "status IN ('INITIALIZED', 'WAITING_FOR_PERMITS')"

UPGRADE = (
    "CREATE TABLE schema_version (version INTEGER PRIMARY KEY)",
    "CREATE TABLE files (digest TEXT PRIMARY KEY, content {blob} NOT NULL)",
    """CREATE TABLE workflows (
        id TEXT PRIMARY KEY, latest_version INTEGER NOT NULL, next_number INTEGER NOT NULL,
        paused INTEGER NOT NULL, unblocked BIGINT NOT NULL, created_at DOUBLE PRECISION NOT NULL, updated_at DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE workflow_versions (
        workflow_id TEXT NOT NULL REFERENCES workflows (id), version INTEGER NOT NULL, digest TEXT NOT NULL,
        definition TEXT NOT NULL, source TEXT NOT NULL, source_name TEXT NOT NULL, pushed_at DOUBLE PRECISION NOT NULL,
        pushed_by TEXT NOT NULL, PRIMARY KEY (workflow_id, version))""",
    """CREATE TABLE runs (
        seq {serial}, id TEXT NOT NULL UNIQUE, workflow_id TEXT NOT NULL, version INTEGER NOT NULL, number INTEGER,
        root_id TEXT NOT NULL, parent_id TEXT, parent_step TEXT, iteration INTEGER, path TEXT NOT NULL, occasion TEXT,
        status TEXT NOT NULL, request TEXT, params TEXT NOT NULL, initiator TEXT NOT NULL, cause TEXT,
        restarts INTEGER NOT NULL, revision BIGINT NOT NULL, created_at DOUBLE PRECISION NOT NULL,
        started_at DOUBLE PRECISION, ended_at DOUBLE PRECISION, UNIQUE (workflow_id, occasion))""",
    "CREATE INDEX runs_by_workflow ON runs (workflow_id, seq)",
    "CREATE INDEX runs_by_root ON runs (root_id, seq)",
    "CREATE INDEX runs_by_parent ON runs (parent_id, parent_step, iteration)",
    f"CREATE INDEX runs_active ON runs (status, workflow_id) WHERE {ACTIVE_RUN}",
    """CREATE TABLE steps (
        run_id TEXT NOT NULL, step_id TEXT NOT NULL, root_id TEXT NOT NULL, position INTEGER NOT NULL, type TEXT NOT NULL,
        status TEXT NOT NULL, attempt INTEGER NOT NULL, generation INTEGER NOT NULL, owner TEXT, request TEXT,
        delay DOUBLE PRECISION NOT NULL, available_at DOUBLE PRECISION, tries TEXT NOT NULL, params TEXT, outputs TEXT,
        handle TEXT, loop TEXT, resumes INTEGER NOT NULL, cause TEXT, started_at DOUBLE PRECISION, ended_at DOUBLE PRECISION,
        revision BIGINT NOT NULL, PRIMARY KEY (run_id, step_id))""",
    "CREATE INDEX steps_by_revision ON steps (run_id, revision)",
    f"CREATE INDEX steps_ready ON steps (available_at) WHERE {READY_STEP}",
    "CREATE INDEX steps_owned ON steps (owner) WHERE owner IS NOT NULL",
    """CREATE TABLE attempts (
        run_id TEXT NOT NULL, step_id TEXT NOT NULL, attempt INTEGER NOT NULL, status TEXT NOT NULL, cause TEXT,
        worker TEXT, started_at DOUBLE PRECISION, ended_at DOUBLE PRECISION, PRIMARY KEY (run_id, step_id, attempt))""",
    """CREATE TABLE events (
        seq {serial}, run_id TEXT NOT NULL, step_id TEXT, attempt INTEGER, at DOUBLE PRECISION NOT NULL,
        previous TEXT, status TEXT NOT NULL, cause TEXT)""",
    "CREATE INDEX events_by_run ON events (run_id, seq)",
    """CREATE TABLE logs (
        run_id TEXT NOT NULL, step_id TEXT NOT NULL, attempt INTEGER NOT NULL, number INTEGER NOT NULL,
        content {blob} NOT NULL, PRIMARY KEY (run_id, step_id, attempt, number))""",
    """CREATE TABLE workers (
        id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, lock_file TEXT NOT NULL, status TEXT NOT NULL,
        beat BIGINT NOT NULL, slots INTEGER NOT NULL, serves TEXT NOT NULL, program TEXT NOT NULL,
        started_at DOUBLE PRECISION NOT NULL, seen_at DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX workers_alive ON workers (status) WHERE status <> 'GONE'",
)
