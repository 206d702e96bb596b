"""Where OpenLineage events go: an address, or a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx

from icefloe.config import Config, expand, expand_url

TIMEOUT_SECONDS = 5.0
DEFAULT_PATH = "/api/v1/lineage"
_WAIT = {401, 403, 404, 407, 408, 425, 429}
"""Refused for a reason that passes, or that somebody mends: a key, an address, too much at once."""


class ReceiverAwayError(Exception):
    """Nothing can be sent now. It is tried again, from this event on."""


class EventRefusedError(Exception):
    """This event is not wanted, and would not be another time."""


class Receiver(Protocol):
    def send(self, event: dict[str, Any]) -> None:
        """Raises :class:`ReceiverAwayError` or :class:`EventRefusedError`."""
        ...

    def close(self) -> None: ...


class HttpReceiver:
    """One request for each event: what every receiver understands."""

    def __init__(self, url: str, api_key: str | None = None) -> None:
        bare = urlsplit(url).path in ("", "/")
        self.url = url.rstrip("/") + DEFAULT_PATH if bare else url
        headers = {"Content-Type": "application/json"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self._client = httpx.Client(headers=headers, timeout=TIMEOUT_SECONDS)

    def send(self, event: dict[str, Any]) -> None:
        try:
            answer = self._client.post(self.url, content=json.dumps(event))
        except (httpx.HTTPError, OSError) as error:
            raise ReceiverAwayError(f"{type(error).__name__}: {error}") from error
        if answer.is_success:
            return
        said = f"the receiver answered {answer.status_code}: {answer.text[:200]}"
        if answer.is_client_error and answer.status_code not in _WAIT:
            raise EventRefusedError(said)
        raise ReceiverAwayError(said)

    def close(self) -> None:
        self._client.close()


class FileReceiver:
    """JSON lines, appended. A line that a crash cut off is ended, not continued."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def send(self, event: dict[str, Any]) -> None:
        line = json.dumps(event, separators=(",", ":")).encode() + b"\n"
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a+b") as stream:
                if stream.seek(0, os.SEEK_END):
                    stream.seek(-1, os.SEEK_END)
                    line = line if stream.read(1) == b"\n" else b"\n" + line
                stream.write(line)
        except OSError as error:
            raise ReceiverAwayError(f"{self._file}: {error}") from error

    def close(self) -> None:
        pass


def configured(config: Config) -> Receiver | None:
    """None: nothing is sent."""
    settings = config.openlineage
    if settings.file is not None:
        return FileReceiver(config.root / expand(settings.file))
    if settings.url is None:
        return None
    key = settings.api_key
    return HttpReceiver(expand_url(settings.url), expand(key.get_secret_value()) if key is not None else None)
