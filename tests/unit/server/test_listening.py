"""Where the server listens, and who keeps its token."""

from __future__ import annotations

import os
import socket
import ssl
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from icefloe import config as configuration
from icefloe.config import Config
from icefloe.errors import ConfigError
from icefloe.server.access import token_of
from icefloe.server.listening import Listener, ListenError
from icefloe.service.client import Client
from icefloe.service.state import upgrade


def project(root: Path, **server: Any) -> Config:
    (root / configuration.HOME_NAME).mkdir(exist_ok=True)
    return configuration.from_dict({"server": server}, root=root)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    found = project(tmp_path)
    upgrade(found)
    with Client(found) as made:
        yield made


def with_settings(client: Client, **server: Any) -> Client:
    client.config = project(client.config.root, **server)
    return client


@pytest.mark.parametrize(
    "listen", ["", "8780", "localhost", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", "::1:80", ":1"]
)
def test_an_address_that_is_none_is_refused(client: Client, listen: str) -> None:
    with pytest.raises(ListenError, match="is no address"):
        Listener(client, listen)


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_other_machines_are_not_let_in_without_tls_or_an_explicit_setting(client: Client, listen: str) -> None:
    with pytest.raises(ListenError, match="plain text") as caught:
        Listener(client, listen)
    assert "allow_plain_http" in (caught.value.hint or "")


def test_an_explicit_setting_lets_them_in(client: Client) -> None:
    Listener(with_settings(client, allow_plain_http=True), "0.0.0.0:0").close()


def test_a_port_that_is_taken_is_said_at_once(client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ListenError, match="in use") as caught:
            Listener(client, listen)
    assert caught.value.where == listen
    assert "--listen" in (caught.value.hint or "")


def test_with_a_certificate_it_speaks_tls(client: Client) -> None:
    certificate, key = self_signed(client.config.root)
    listener = Listener(with_settings(client, certificate="tls/cert.pem", key="tls/key.pem"), "localhost:0")
    listener.start(on_failure=lambda: None)
    try:
        assert listener.address.startswith("https://")
        answer = httpx.get(
            f"{listener.address}/api/v1/health", verify=ssl.create_default_context(cafile=str(certificate))
        )
        assert answer.json() == {"status": "ok"}
    finally:
        listener.close()
    key.write_text("no key")
    with pytest.raises(ListenError, match="TLS cannot be set up"):
        Listener(client, "localhost:0")
    with pytest.raises(ListenError, match="both"):
        Listener(with_settings(client, certificate="tls/cert.pem"), "localhost:0")


def self_signed(root: Path) -> tuple[Path, Path]:
    (root / "tls").mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost"), _ip("127.0.0.1"), _ip("::1")]), False)
        .sign(key, hashes.SHA256())
    )
    files = root / "tls" / "cert.pem", root / "tls" / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def _ip(text: str) -> x509.IPAddress:
    import ipaddress

    return x509.IPAddress(ipaddress.ip_address(text))


def test_the_token_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    found = project(tmp_path)
    token, where = token_of(found)
    file = tmp_path / ".icefloe" / "server.token"
    assert where == str(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().strip() == token
    assert token_of(found) == (token, where)
    assert [item.name for item in file.parent.iterdir()] == [file.name], "no draft is left"


def test_servers_that_start_at_once_have_one_token(tmp_path: Path) -> None:
    found = project(tmp_path)
    tokens: list[str] = []
    threads = [threading.Thread(target=lambda: tokens.append(token_of(found)[0])) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tokens) == 16
    assert len(set(tokens)) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_token_that_others_can_read_is_not_used(tmp_path: Path, mode: int) -> None:
    found = project(tmp_path)
    _, where = token_of(found)
    os.chmod(where, mode)
    with pytest.raises(ConfigError, match="can read the token") as caught:
        token_of(found)
    assert caught.value.where == where
    assert "chmod 600" in (caught.value.hint or "")


@pytest.mark.parametrize("content", ["", "short", "two words that are long enough", "ümlaut-ümlaut-ümlaut"])
def test_a_token_that_is_none_is_refused_and_not_shown(tmp_path: Path, content: str) -> None:
    found = project(tmp_path)
    _, where = token_of(found)
    Path(where).write_text(content)
    with pytest.raises(ConfigError) as caught:
        token_of(found)
    assert not content or content not in f"{caught.value} {caught.value.hint}"


def test_the_environment_may_have_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REST_TOKEN", "from-the-environment")
    found = project(tmp_path, token="$ENV{REST_TOKEN}")
    assert token_of(found) == ("from-the-environment", "[server] token")
    assert not (tmp_path / ".icefloe" / "server.token").exists()
    (tmp_path / "icefloe.toml").write_text("")
    loaded = configuration.load(tmp_path, env={"ICEFLOE_SERVER__TOKEN": "another-long-secret"})
    assert token_of(loaded)[0] == "another-long-secret"
    assert "another-long-secret" not in repr(loaded)
