"""Settings for somebody else's Spark."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.config import from_dict
from icefloe.spark import settings

JARS = [Path("/jars/a.jar"), Path("/jars/b.jar")]


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.setenv("JOIN_SECRET", "hush")
    return {
        "catalog": {
            "type": "rest",
            "uri": "http://catalog",
            "properties": {"s3.secret-access-key": "$ENV{JOIN_SECRET}", "token": "written-down", "scope": "all"},
        }
    }


def test_secrets_are_shown_only_when_asked_for(data: dict[str, object]) -> None:
    config = from_dict(data, root=Path("/p"))
    shown = settings.for_joining(config, JARS, reveal=False)
    assert "hush" not in str(shown) and "written-down" not in str(shown)
    assert shown["spark.sql.catalog.lake.scope"] == "all"
    assert {key.rpartition("lake.")[2] for key in settings.hidden(shown)} == {"s3.secret-access-key", "token"}
    revealed = settings.for_joining(config, JARS, reveal=True)
    assert "hush" in str(revealed) and "written-down" in str(revealed)
    assert settings.hidden(revealed) == []


@given(st.dictionaries(st.from_regex(r"spark\.[a-z.]{1,10}", fullmatch=True), st.text(max_size=30)))
def test_arguments_survive_a_shell(values: dict[str, str]) -> None:
    # shlex knows no continued lines; inside of quotes a backslash before a line's end is just that.
    words = shlex.split(settings.as_arguments(values).replace(" \\\n  --conf ", " --conf "))
    assert words[0::2] == ["--conf"] * len(values)
    assert dict(word.split("=", 1) for word in words[1::2]) == values
    assert json.loads(settings.as_json(values)) == values
