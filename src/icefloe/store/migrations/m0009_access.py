"""Who may come in over HTTP: tokens, sessions of browsers, links that open one. Answers that are kept to be given again. How far
what has happened was told elsewhere."""

UPGRADE = (
    """CREATE TABLE tokens (
        id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, digest TEXT NOT NULL UNIQUE, role TEXT NOT NULL,
        created_at DOUBLE PRECISION NOT NULL, created_by TEXT NOT NULL, expires_at DOUBLE PRECISION,
        used_at DOUBLE PRECISION, revoked_at DOUBLE PRECISION, revoked_by TEXT)""",
    """CREATE TABLE sessions (
        digest TEXT PRIMARY KEY, actor TEXT NOT NULL, role TEXT NOT NULL, token_id TEXT, opened_at DOUBLE PRECISION NOT NULL,
        expires_at DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX sessions_by_expiry ON sessions (expires_at)",
    """CREATE TABLE login_links (
        digest TEXT PRIMARY KEY, actor TEXT NOT NULL, role TEXT NOT NULL, made_at DOUBLE PRECISION NOT NULL,
        expires_at DOUBLE PRECISION NOT NULL, used_at DOUBLE PRECISION)""",
    "CREATE INDEX login_links_by_expiry ON login_links (expires_at)",
    """CREATE TABLE idempotency_keys (
        actor TEXT NOT NULL, name TEXT NOT NULL, request TEXT NOT NULL, status INTEGER, headers TEXT, body {blob},
        made_at DOUBLE PRECISION NOT NULL, PRIMARY KEY (actor, name))""",
    "CREATE INDEX idempotency_keys_by_time ON idempotency_keys (made_at)",
    """CREATE TABLE deliveries (
        name TEXT PRIMARY KEY, holder TEXT, beat BIGINT NOT NULL, place TEXT NOT NULL, caught_up_at DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX captures_by_time ON captures (created_at, id)",
    # For listings, which leave iterations out. By another column than what workers ask by, who have indexes of their own.
    "CREATE INDEX runs_listed ON runs (seq) WHERE iteration IS NULL",
    "CREATE INDEX runs_listed_by_status ON runs (status, seq) WHERE iteration IS NULL",
    "CREATE INDEX runs_listed_by_workflow ON runs (workflow_id, seq) WHERE iteration IS NULL",
    "CREATE INDEX runs_listed_by_workflow_and_status ON runs (workflow_id, status, seq) WHERE iteration IS NULL",
)
