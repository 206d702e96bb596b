"""The tables as SQLAlchemy knows them. The migrations make them; a test holds the two together.

Values that only Python looks into are JSON in TEXT columns, on both databases. Times are seconds since the epoch, for
people to read: no decision compares the clocks of two machines.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Double, Integer, LargeBinary, Text

metadata = sa.MetaData()


def _table(name: str, *columns: Column[object]) -> sa.Table:
    return sa.Table(name, metadata, *columns)


files = _table("files", Column("digest", Text, primary_key=True), Column("content", LargeBinary))

workflows = _table(
    "workflows",
    Column("id", Text, primary_key=True),
    Column("latest_version", Integer),
    Column("next_number", Integer),
    Column("paused", Integer),
    Column("unblocked", BigInteger),
    Column("created_at", Double),
    Column("updated_at", Double),
    Column("active", Integer),
    Column("forgiven", BigInteger),
)

workflow_versions = _table(
    "workflow_versions",
    Column("workflow_id", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("digest", Text),
    Column("definition", Text),
    Column("source", Text),
    Column("source_name", Text),
    Column("pushed_at", Double),
    Column("pushed_by", Text),
)

runs = _table(
    "runs",
    Column("seq", BigInteger, primary_key=True),
    Column("id", Text),
    Column("workflow_id", Text),
    Column("version", Integer),
    Column("number", Integer),
    Column("root_id", Text),
    Column("parent_id", Text),
    Column("parent_step", Text),
    Column("iteration", Integer),
    Column("path", Text),
    Column("occasion", Text),
    Column("status", Text),
    Column("request", Text),
    Column("params", Text),
    Column("initiator", Text),
    Column("cause", Text),
    Column("restarts", Integer),
    Column("revision", BigInteger),
    Column("created_at", Double),
    Column("started_at", Double),
    Column("ended_at", Double),
)

steps = _table(
    "steps",
    Column("run_id", Text, primary_key=True),
    Column("step_id", Text, primary_key=True),
    Column("root_id", Text),
    Column("position", Integer),
    Column("type", Text),
    Column("status", Text),
    Column("attempt", Integer),
    Column("generation", Integer),
    Column("owner", Text),
    Column("request", Text),
    Column("delay", Double),
    Column("available_at", Double),
    Column("tries", Text),
    Column("params", Text),
    Column("outputs", Text),
    Column("handle", Text),
    Column("loop", Text),
    Column("resumes", Integer),
    Column("cause", Text),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("revision", BigInteger),
    Column("era", Integer),
)

attempts = _table(
    "attempts",
    Column("run_id", Text, primary_key=True),
    Column("step_id", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("status", Text),
    Column("cause", Text),
    Column("worker", Text),
    Column("started_at", Double),
    Column("ended_at", Double),
)

events = _table(
    "events",
    Column("seq", BigInteger, primary_key=True),
    Column("run_id", Text),
    Column("step_id", Text),
    Column("attempt", Integer),
    Column("at", Double),
    Column("previous", Text),
    Column("status", Text),
    Column("cause", Text),
)

logs = _table(
    "logs",
    Column("run_id", Text, primary_key=True),
    Column("step_id", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("content", LargeBinary),
)

workers = _table(
    "workers",
    Column("id", Text, primary_key=True),
    Column("host", Text),
    Column("pid", Integer),
    Column("lock_file", Text),
    Column("status", Text),
    Column("beat", BigInteger),
    Column("slots", Integer),
    Column("serves", Text),
    Column("program", Text),
    Column("started_at", Double),
    Column("seen_at", Double),
)

consumers = _table(
    "consumers",
    Column("name", Text, primary_key=True),
    Column("workflow_id", Text),
    Column("version", BigInteger),
    Column("created_at", Double),
)

checkpoints = _table(
    "checkpoints",
    Column("consumer", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("ref", Text),
    Column("table_uuid", Text),
    Column("snapshot_id", BigInteger),
    Column("sequence_number", BigInteger),
    Column("schema_id", Integer),
    Column("capture_id", Text),
    Column("moved_at", Double),
)

captures = _table(
    "captures",
    Column("id", Text, primary_key=True),
    Column("consumer", Text),
    Column("run_id", Text),
    Column("step_path", Text),
    Column("claim", Text),
    Column("state", Text),
    Column("base_version", BigInteger),
    Column("sources", Text),
    Column("released", Integer),
    Column("keep_seconds", Double),
    Column("created_at", Double),
    Column("built_at", Double),
    Column("ended_at", Double),
    Column("pinned_batches", Integer),
    Column("settled", Integer),
    Column("release_at", Double),
)

publications = _table(
    "publications",
    Column("capture_id", Text, primary_key=True),
    Column("step_path", Text, primary_key=True),
    Column("iteration", Integer, primary_key=True),
    Column("target", Text, primary_key=True),
    Column("snapshot_id", BigInteger),
    Column("published_at", Double),
)

spark_sessions = _table(
    "spark_sessions",
    Column("session_id", Text, primary_key=True),
    Column("work", Text),
    Column("run_id", Text),
    Column("step_id", Text),
    Column("branch", Text),
    Column("opened_at", Double),
    Column("gone_at", Double),
)

audits = _table(
    "audits",
    Column("seq", BigInteger, primary_key=True),
    Column("at", Double),
    Column("who", Text),
    Column("verb", Text),
    Column("subject", Text),
    Column("details", Text),
)

triggers = _table(
    "triggers",
    Column("workflow_id", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("kind", Text),
    Column("since", Double),
    Column("state", Text),
    Column("version", BigInteger),
    Column("last_run", Text),
    Column("last_at", Double),
)

signals = _table(
    "signals",
    Column("seq", BigInteger, primary_key=True),
    Column("id", Text),
    Column("name", Text),
    Column("params", Text),
    Column("publisher", Text),
    Column("published_at", Double),
)

watermarks = _table(
    "watermarks",
    Column("source", Text, primary_key=True),
    Column("valid_through", Double),
    Column("publisher", Text),
    Column("set_at", Double),
)

incidents = _table(
    "incidents",
    Column("seq", BigInteger, primary_key=True),
    Column("workflow_id", Text),
    Column("kind", Text),
    Column("subject", Text),
    Column("message", Text),
    Column("opened_at", Double),
    Column("closed_at", Double),
    Column("told", Text),
    Column("claim", Text),
)

schedulers = _table(
    "schedulers",
    Column("id", Text, primary_key=True),
    Column("host", Text),
    Column("pid", Integer),
    Column("started_at", Double),
    Column("seen_at", Double),
    Column("trouble", Text),
)

savings = _table(
    "savings",
    Column("root_id", Text, primary_key=True),
    Column("place", Text, primary_key=True),
    Column("target", Text, primary_key=True),
    Column("workflow_id", Text),
    Column("step", Text),
    Column("pattern", Text),
    Column("compared_with", Text),
    Column("read_files", BigInteger),
    Column("read_rows", BigInteger),
    Column("read_bytes", BigInteger),
    Column("instead_files", BigInteger),
    Column("instead_rows", BigInteger),
    Column("instead_bytes", BigInteger),
    Column("written_files", BigInteger),
    Column("written_rows", BigInteger),
    Column("written_bytes", BigInteger),
    Column("written_delete_files", BigInteger),
    Column("seconds", Double),
    Column("notes", Text),
    Column("recorded_at", Double),
)

logic_versions = _table(
    "logic_versions",
    Column("seq", BigInteger, primary_key=True),
    Column("workflow_id", Text),
    Column("place", Text),
    Column("target", Text),
    Column("ref", Text),
    Column("fingerprint", Text),
    Column("text", Text),
    Column("columns", Text),
    Column("root_id", Text),
    Column("recorded_at", Double),
)

past_occasions = _table(
    "past_occasions",
    Column("workflow_id", Text, primary_key=True),
    Column("occasion", Text, primary_key=True),
    Column("run_id", Text),
    Column("run_ended_at", Double),
)

savings_totals = _table(
    "savings_totals",
    Column("workflow_id", Text, primary_key=True),
    Column("step", Text, primary_key=True),
    Column("target", Text, primary_key=True),
    Column("runs", BigInteger),
    Column("read_files", BigInteger),
    Column("read_rows", BigInteger),
    Column("read_bytes", BigInteger),
    Column("instead_files", BigInteger),
    Column("instead_rows", BigInteger),
    Column("instead_bytes", BigInteger),
    Column("written_files", BigInteger),
    Column("written_rows", BigInteger),
    Column("written_bytes", BigInteger),
    Column("written_delete_files", BigInteger),
    Column("seconds", Double),
    Column("timed", BigInteger),
    Column("compared_with", Text),
    Column("notes", Text),
    Column("first_at", Double),
    Column("last_at", Double),
)

janitor = _table(
    "janitor",
    Column("name", Text, primary_key=True),
    Column("holder", Text),
    Column("beat", BigInteger),
    Column("rounds", BigInteger),
    Column("seen_at", Double),
)

prunings = _table(
    "prunings",
    Column("seq", BigInteger, primary_key=True),
    Column("at", Double),
    Column("holder", Text),
    Column("kind", Text),
    Column("items", BigInteger),
    Column("bytes", BigInteger),
    Column("seconds", Double),
    Column("error", Text),
)

tokens = _table(
    "tokens",
    Column("id", Text, primary_key=True),
    Column("name", Text),
    Column("digest", Text),
    Column("role", Text),
    Column("created_at", Double),
    Column("created_by", Text),
    Column("expires_at", Double),
    Column("used_at", Double),
    Column("revoked_at", Double),
    Column("revoked_by", Text),
)

sessions = _table(
    "sessions",
    Column("digest", Text, primary_key=True),
    Column("actor", Text),
    Column("role", Text),
    Column("token_id", Text),
    Column("opened_at", Double),
    Column("expires_at", Double),
)

login_links = _table(
    "login_links",
    Column("digest", Text, primary_key=True),
    Column("actor", Text),
    Column("role", Text),
    Column("made_at", Double),
    Column("expires_at", Double),
    Column("used_at", Double),
)

idempotency_keys = _table(
    "idempotency_keys",
    Column("actor", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("request", Text),
    Column("status", Integer),
    Column("headers", Text),
    Column("body", LargeBinary),
    Column("made_at", Double),
)

deliveries = _table(
    "deliveries",
    Column("name", Text, primary_key=True),
    Column("holder", Text),
    Column("beat", BigInteger),
    Column("place", Text),
    Column("caught_up_at", Double),
)
