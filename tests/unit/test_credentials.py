"""Every setting that can hold a secret: it is known as one, from the file and from the environment, and steps do not get it."""

from __future__ import annotations

import json
import re
import secrets
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote, quote_plus

import pytest
from pydantic import BaseModel, SecretStr

from icefloe import config as configuration
from icefloe.config import Config
from icefloe.credentials import credentials, forms, refusal
from icefloe.engine.supervisor import Masker
from icefloe.environment import ALLOWED, for_spark, for_user_code, hand_over, take_over

SECRETS = {
    "catalog.uri": "postgresql://icefloe:{}@db.example/lake",
    "catalog.properties": {
        "credential": "client:{}",
        "token": "{}",
        "s3.secret-access-key": "{}",
        "header.Authorization": "{}",
    },
    "catalog.pyiceberg": {"s3.session-token": "{}", "oauth2-client-secret": "{}"},
    "catalog.spark": {"jdbc.password": "{}", "uri": "jdbc:postgresql://db.example/lake?password={}"},
    "state.url": "postgresql://icefloe:{}@db.example/state",
    "spark.remote": "sc://spark.example:15002/;token={}",
    "spark.conf": {
        "spark.hadoop.fs.s3a.secret.key": "{}",
        "spark.hadoop.fs.azure.account.key.lake.blob.core.windows.net": "{}",
        "spark.ssl.keyPassword": "{}",
        "spark.authenticate.secret": "{}",
    },
    "alerts.channels": {"ops": "slack://{}/channel", "mail": "mailto://me:{}@mail.example"},
    "alerts.default": "json://hooks.example/{}",
    "server.token": "{}",
    "openlineage.url": "http://me:{}@lineage.example",
    "openlineage.api_key": "{}",
}
"""Every way to put a secret into a setting of the configuration."""

PLAIN = {
    *("catalog.name", "catalog.type", "catalog.warehouse", "change_tables.namespace", "change_tables.location"),
    *("spark.master", "spark.driver_memory", "spark.java_home", "spark.extra_jars", "spark.environment"),
    *("steps.environment", "steps.secrets", "alerts.templates"),
    *("server.listen", "server.token_file", "server.certificate", "server.key"),
    *("server.url", "server.hosts", "server.proxy_header", "server.proxy_role", "server.proxy_admins"),
    *("server.trusted_proxies", "logs.format", "telemetry.otlp_endpoint", "openlineage.file", "openlineage.namespace"),
}
"""Texts that are none: names, places, sizes. Keys and certificates are files."""


def text_settings(model: type[BaseModel], above: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from text_settings(kind, f"{above}{name}.")
        elif name != "root" and _holds_text(kind):
            yield f"{above}{name}"


def _holds_text(kind: Any) -> bool:
    return kind in (str, SecretStr) or any(_holds_text(part) or isinstance(part, str) for part in get_args(kind))


CASES = [
    (key, below, template)
    for key, shape in SECRETS.items()
    for below, template in (shape.items() if isinstance(shape, dict) else [("", shape)])
]


def written(key: str, below: str, value: str) -> dict[str, Any]:
    section, _, name = key.partition(".")
    item: Any = {below: value} if below else [value] if key == "alerts.default" else value
    return {section: {name: item}}


def toml(data: dict[str, Any]) -> str:
    lines = []
    for section, settings in data.items():
        for name, item in settings.items():
            if isinstance(item, dict):
                lines += [f"[{section}.{name}]", *(f'"{key}" = "{value}"' for key, value in item.items())]
            else:
                lines += [f"[{section}]", f"{name} = {_literal(item)}"]
    text = "\n".join(lines)
    assert tomllib.loads(text)
    return text


def _literal(item: Any) -> str:
    return f"[{', '.join(map(_literal, item))}]" if isinstance(item, list) else f'"{item}"'


def test_every_text_of_the_configuration_is_known_to_hold_secrets_or_not_to() -> None:
    texts = {key for key in text_settings(Config) if key != "engine.limits"}
    assert texts == set(SECRETS) | PLAIN, "a new setting: say here whether it can hold a secret, and how"


@pytest.mark.parametrize(("key", "below", "template"), CASES)
@pytest.mark.parametrize("way", ["file", "environment", "reference", "whole reference"])
def test_a_configured_secret_is_known_and_reaches_no_step(
    key: str, below: str, template: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = secrets.token_urlsafe(24)
    value = template.format(secret)
    (tmp_path / "icefloe.toml").write_text("")
    variable = f"ICEFLOE_{key.replace('.', '__').upper()}" + (f"__{below}" if below else "")
    if way == "file":
        (tmp_path / "icefloe.toml").write_text(toml(written(key, below, value)))
    elif way == "environment":
        monkeypatch.setenv(variable, value)
    else:
        variable = "SPARK_OR_WHATEVER"  # one that steps would get by its name
        text = template.format("$ENV{SPARK_OR_WHATEVER}") if way == "reference" else "$ENV{SPARK_OR_WHATEVER}"
        (tmp_path / "icefloe.toml").write_text(toml(written(key, below, text)))
        monkeypatch.setenv(variable, secret if way == "reference" else value)
    monkeypatch.setenv("SPARK_COPY", f"under another name: {secret}")
    config = configuration.load(tmp_path / "icefloe.toml")

    known = credentials(config)
    assert secret not in known.mask(f"it said {secret}.")
    for environment in (for_user_code(config), for_spark(config)):
        assert secret not in str(environment)
        assert environment["PATH"]
    if way != "file":
        refused = refusal(config, variable)
        assert refused is not None and "project" in refused.reason and refused.hint


def lower_case(text: str) -> str:
    return re.sub("%..", lambda match: match[0].lower(), text)


@pytest.mark.parametrize(
    "secret", ['p@ss/w&rd "é"+%', "correct-horse", "a b/c:d@e", "-----KEY-----\nc2VjcmV0c2VjcmV0\n-----END-----"]
)
def test_a_secret_is_masked_however_it_is_written_and_cut(secret: str) -> None:
    quoted = quote(secret, safe="")
    for form in (secret, quote(secret), quoted, lower_case(quoted), quote_plus(secret), json.dumps(secret)[1:-1]):
        data = f"<{form}>".encode()
        for cut in range(len(data)):
            masker = Masker([each.encode() for each in forms([secret])])
            assert masker.feed(data[:cut]) + masker.feed(data[cut:]) + masker.end() == b"<***>"


def test_a_password_that_stands_quoted_in_an_address_is_masked_as_it_is_too(tmp_path: Path) -> None:
    (tmp_path / "icefloe.toml").write_text('[state]\nurl = "postgresql://icefloe:p%40ss%2Fword@db.example/state"\n')
    known = credentials(configuration.load(tmp_path / "icefloe.toml"))
    assert known.mask("p%40ss%2Fword p@ss/word p%40ss%2fword p%40ss/word") == "*** *** *** ***"


def test_a_password_like_a_word_of_every_path_takes_no_path_away(tmp_path: Path) -> None:
    (tmp_path / "icefloe.toml").write_text('[state]\nurl = "postgresql://icefloe:root@db.example/state"\n')
    config = configuration.load(tmp_path / "icefloe.toml")
    assert for_user_code(config, {"HOME": "/root", "PATH": "/root/bin"}) == {"HOME": "/root", "PATH": "/root/bin"}


def test_steps_get_what_is_allowed_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "icefloe.toml").write_text('[steps]\nenvironment = ["TEAM_*", "GITHUB_TOKEN"]\n')
    config = configuration.load(tmp_path / "icefloe.toml")
    usual = dict.fromkeys(
        ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "PYTHONPATH", "SPARK_HOME"), "x"
    )
    usual |= {"ICEFLOE_CONFIG": "x", "ICEFLOE_FAULT": "x", "ICEFLOE_JARS": "x"}
    more = {"TEAM_NAME": "x", "TEAM_TOKEN": "x", "GITHUB_TOKEN": "x"}
    cloud = {
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_PROFILE": "x",
        "GOOGLE_APPLICATION_CREDENTIALS": "x",
        "AZURE_CLIENT_SECRET": "x",
    }
    others = {
        "PGPASSWORD": "x",
        "OTHER": "x",
        "SPARK_AUTH_SECRET": "x",
        "ICEFLOE_STATE__URL": "x",
        "ICEFLOE_MAVEN_MIRROR": "x",
    }
    env = usual | more | cloud | others
    assert for_user_code(config, env) == usual | more
    assert for_user_code(config, env, more=config.spark.environment) == usual | more | cloud
    assert all(pattern == pattern.strip() for pattern in ALLOWED)


def test_a_clouds_credentials_reach_spark_but_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = secrets.token_urlsafe(24)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    file = tmp_path / "icefloe.toml"
    file.write_text("")
    config = configuration.load(file)
    assert for_spark(config)["AWS_SECRET_ACCESS_KEY"] == secret
    assert "AWS_SECRET_ACCESS_KEY" not in for_user_code(config)
    assert credentials(config).mask(secret) == "***"
    file.write_text("[spark]\nenvironment = []\n")
    assert "AWS_SECRET_ACCESS_KEY" not in for_spark(configuration.load(file))


@pytest.mark.parametrize(
    ("allowed", "name", "refused"),
    [
        ('["*"]', "PARTNER_TOKEN", False),
        ('["PARTNER_*"]', "PARTNER_TOKEN", False),
        ('["PARTNER_*"]', "OTHER_TOKEN", True),
        ("[]", "PARTNER_TOKEN", True),
        ('["*"]', "ICEFLOE_STATE__URL", True),
        ('["*"]', "STATE_PASSWORD", True),
        ('["STATE_PASSWORD"]', "STATE_PASSWORD", True),
        ('["*"]', "PGPASSWORD", True),
        ('["*"]', "COPY", True),
    ],
)
def test_which_secrets_definitions_may_name_is_the_projects_to_say(
    allowed: str, name: str, refused: bool, tmp_path: Path
) -> None:
    file = tmp_path / "icefloe.toml"
    file.write_text(
        f'[state]\nurl = "postgresql://icefloe:$ENV{{STATE_PASSWORD}}@db.example/state"\n[steps]\nsecrets = {allowed}\n'
    )
    env = {"STATE_PASSWORD": "correct-horse", "COPY": "correct-horse", "PARTNER_TOKEN": "battery-staple"}
    answer = refusal(configuration.load(file, env=env), name, env)
    assert (answer is not None) is refused
    if answer is not None:
        assert name in answer.reason and answer.hint


def test_what_a_program_of_icefloes_own_needs_is_handed_over_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE_PASSWORD", "correct-horse")
    monkeypatch.setenv("ICEFLOE_CATALOG__NAME", "other")
    monkeypatch.setenv("UNRELATED", "x")
    file = tmp_path / "icefloe.toml"
    file.write_text('[state]\nurl = "postgresql://icefloe:$ENV{STATE_PASSWORD}@db.example/state"\n')
    hand_over(configuration.load(file), tmp_path)
    private = tmp_path / "private.json"
    assert private.stat().st_mode & 0o777 == 0o600
    assert "UNRELATED" not in private.read_text()
    for name in ("STATE_PASSWORD", "ICEFLOE_CATALOG__NAME"):
        monkeypatch.delenv(name)
    monkeypatch.setattr(configuration, "_entrusted", {})
    take_over(tmp_path)
    config = configuration.load(file)
    assert config.state.resolved_url() == "postgresql://icefloe:correct-horse@db.example/state"
    assert config.catalog.name == "other"
    assert not private.exists()
