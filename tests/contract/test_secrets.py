"""Secrets reach the step that needs them, and nothing else."""

from __future__ import annotations

import json
import logging
import secrets
from pathlib import Path
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from icefloe import config as configuration
from icefloe.cli.main import app, load_areas
from icefloe.credentials import MaskingFormatter, SecretRefusedError
from icefloe.service.client import Client
from icefloe.service.pushing import push_files
from icefloe.store.tables import metadata
from icefloe.workflow.problems import DefinitionError
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


LOOK = """
Workflow:
  id: curious
  retry: {error: 0, platform: 0}
  jobs:
    - job:
        id: look
        type: Shell
        shell:
          script: |
            env | tee "$KEPT/env"
            tr '\\0' '\\n' < /proc/$PPID/environ | tee "$KEPT/parent"
            tr '\\0' '\\n' < /proc/$(cut -d' ' -f4 /proc/$PPID/stat)/environ | tee "$KEPT/launcher"
            PRINTED=$(sed -n 's/.*client:\\(.*\\)"/\\1/p' icefloe.toml)
            for (( at = 0; at < ${#PRINTED}; at++ )); do printf %s "${PRINTED:at:1}"; done
            echo "leak=$PRINTED" > "$ICEFLOE_OUTPUT"
    - job:
        id: program
        type: Python
        python: {script: "import os; print(dict(os.environ)); raise SystemExit(open('icefloe.toml').read())"}
"""


def _secrets_everywhere(
    folder: Path, state_url: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[configuration.Config, list[str]]:
    """A project that runs, with a secret in every section: some in its file, some in the environment."""
    made = [f"{secrets.token_urlsafe(12)}/@ %{number}" for number in range(9)]
    url = state_url
    if url.startswith("postgresql"):
        user, _, rest = url.partition("@")  # this server asks for none
        url = f"{user.rpartition(':')[0] if user.count(':') > 1 else user}:$ENV{{STATE_PASSWORD}}@{rest}"
    (folder / ".icefloe").mkdir(parents=True)
    (folder / "icefloe.toml").write_text(
        f'''
        [state]
        url = "{url}"
        [spark]
        remote = "sc://spark.example:15002/;token={quote(made[1], safe="")}"
        [spark.conf]
        "spark.authenticate.secret" = "$ENV{{SPARK_SECRET}}"
        [catalog.properties]
        credential = "client:{made[3]}"
        [alerts]
        default = ["json://$ENV{{ALERT_HOST}}/"]
        [alerts.channels]
        ops = "mailto://me:{quote(made[5], safe="")}@mail.example"
        [steps]
        environment = ["*"]
        '''
    )
    if url != state_url:
        monkeypatch.setenv("STATE_PASSWORD", made[0])
    for name, value in {
        "SPARK_SECRET": made[2],
        "ALERT_HOST": made[4],
        "ICEFLOE_SERVER__TOKEN": made[6],
        "ICEFLOE_CATALOG__SPARK__jdbc.password": made[7],
        "AWS_SECRET_ACCESS_KEY": made[8],
    }.items():
        monkeypatch.setenv(name, value)
    return configuration.load(folder / "icefloe.toml"), made


def test_no_secret_of_the_configuration_reaches_a_step_or_anything_that_is_shown(
    state_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    monkeypatch.setenv("KEPT", str(kept))
    config, made = _secrets_everywhere(tmp_path / "project", state_url, monkeypatch)
    hidden = {form for secret in made for form in (secret, quote(secret), quote(secret, safe=""))}
    with Client(config) as client:
        project = Project(config, client)
        # What steps cannot read they may still get by other ways, such as the project's file: no log shows it.
        view = project.execute(project.push(LOOK))
        shown = [project.log(view.run_id, step) for step in ("look", "program")] + [str(view)]
        assert "PATH=" in shown[0] and "KEPT=" in shown[0]
        assert "[spark.conf]" in shown[1], "the step has printed the project's file"
        assert view.steps[0].outputs["leak"] == "***"
    monkeypatch.setenv("ICEFLOE_CONFIG", str(config.root))
    for words in (["show", view.run_id], ["logs", view.run_id], ["runs"], ["spark-conf"]):
        load_areas(words)
        for more in ([], ["--output", "json"] if words[0] != "logs" else []):
            result = CliRunner().invoke(app, [*words, *more])
            assert result.exit_code in (0, 1), result.output
            shown.append(result.output)
    for secret in hidden:
        assert [text for text in shown if secret in text] == []
    # Nothing printed here is masked: it is what the step could see.
    seen = "".join((kept / name).read_text() for name in ("env", "parent", "launcher"))
    for secret in hidden:
        assert secret not in seen
    assert not list((config.home / "attempts").glob("*/*"))


def test_a_process_log_shows_no_secret_not_even_in_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, made = _secrets_everywhere(tmp_path / "project", "postgresql://icefloe@db.example/state", monkeypatch)
    try:
        raise ValueError(f"cannot reach postgresql://icefloe:{quote(made[0], safe='')}@db.example")
    except ValueError as error:
        record = logging.LogRecord("icefloe", logging.ERROR, "", 1, "token %s", (made[6],), (type(error), error, None))
    text = MaskingFormatter().format(record)
    assert "token ***" in text and "icefloe:***@db.example" in text


REFUSED = """
Workflow:
  id: greedy
  jobs:
    - job:
        id: use
        type: Shell
        shell:
          script: echo "$ENV{%s}"
"""


def test_a_secret_that_the_project_does_not_allow_is_refused_with_its_place(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARTNER_TOKEN", "battery-staple")
    pushed = project.push(REFUSED % "PARTNER_TOKEN")
    assert project.execute(pushed).status == "SUCCEEDED"

    url = project.config.state.url
    (project.root / "icefloe.toml").write_text(f'[state]\nurl = "{url}"\n[steps]\nsecrets = ["OTHER_*"]\n')
    file = project.root / "greedy.yaml"
    file.write_text(REFUSED % "PARTNER_TOKEN")
    monkeypatch.setenv("ICEFLOE_CONFIG", str(project.root))
    load_areas(["validate"])
    result = CliRunner().invoke(app, ["validate", str(file), "--output", "json"])
    assert result.exit_code == 2
    (problem,) = json.loads(result.stdout)["files"][0]["problems"]
    assert (problem["code"], problem["line"], problem["column"]) == ("secret.refused", 9, 25)
    assert "PARTNER_TOKEN" in problem["message"] and '[steps] secrets = ["OTHER_*", "PARTNER_TOKEN"]' in problem["hint"]

    strict = configuration.load(project.root)
    with Client(strict) as client:
        with pytest.raises(DefinitionError, match="PARTNER_TOKEN"):
            push_files(client, [file])
        with pytest.raises(SecretRefusedError, match="PARTNER_TOKEN"):
            Project(strict, client).push(REFUSED % "PARTNER_TOKEN")
        # What was pushed when it was allowed is not run any more.
        view = Project(strict, client).execute(pushed)
    cause = view.steps[0].cause or {}
    assert view.status == "FAILED" and cause["code"] == "secret.refused"
    assert "step use" in cause["message"] and "PARTNER_TOKEN" in cause["hint"]
