"""Secrets reach the step that needs them, and nothing else."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from icefloe.store.tables import metadata
from tests.projects import Project

TEXT = """
Workflow:
  id: secretive
  PASSWORD: $ENV{THE_PASSWORD}
  jobs:
    - job:
        id: use
        type: Shell
        shell:
          env: {TOKEN: "$ENV{THE_TOKEN}"}
          script: |
            test ${#PASSWORD} = 13 && test ${#TOKEN} = 14
            echo "logging in with $PASSWORD and $TOKEN"
            echo "other=$OTHER" > "$ICEFLOE_OUTPUT"
            echo "leak=$TOKEN" >> "$ICEFLOE_OUTPUT"
"""


def test_secrets_are_in_no_log_and_in_no_row(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_PASSWORD", "correct-horse")
    monkeypatch.setenv("THE_TOKEN", "battery-staple")
    view = project.execute(project.push(TEXT))
    assert view.status == "SUCCEEDED", view.cause
    assert project.log(view.run_id, "use") == "logging in with *** and ***\n"
    assert view.steps[0].outputs["leak"] == "***"
    with project.client.database.read() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(sa.select(table)):
                told = " ".join(str(bytes(v) if isinstance(v, memoryview) else v) for v in row)
                assert "correct-horse" not in told, table.name
                assert "battery-staple" not in told, table.name


def test_a_secret_that_is_not_set_fails_the_step_with_its_name(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_PASSWORD", "x")
    monkeypatch.delenv("THE_TOKEN", raising=False)
    view = project.execute(project.push(TEXT))
    assert view.status == "FAILED"
    assert "THE_TOKEN" in (view.steps[0].cause or {})["message"]
