"""The runs of a workflow that have not ended, without a look at those that have."""

from icefloe.store.migrations.m0001_runs import ACTIVE_RUN

UPGRADE = (f"CREATE INDEX runs_active_by_workflow ON runs (workflow_id, seq) WHERE {ACTIVE_RUN}",)
