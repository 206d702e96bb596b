"""Tells people of incidents: one message when one opens, one when it is over. In a thread of its own, through apprise.

A message is claimed in the database before it is sent and marked as sent afterwards. A scheduler that dies in between has its
claim taken over by another that has seen it for a minute by its own clock; so a message may come twice after a crash, and is
never lost by one. What cannot be sent is tried again, less and less often.
"""

from __future__ import annotations

import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from icefloe.config import AlertSettings, expand, references
from icefloe.errors import IcefloeError
from icefloe.store import incidents
from icefloe.store.database import Database
from icefloe.store.incidents import IncidentRecord
from icefloe.triggers.clocks import Clock
from icefloe.workflow.model import AlertEvent, Workflow

LOG = logging.getLogger("icefloe.alerts")
CLAIM_SECONDS = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 30.0, 600.0
_TITLES = {
    AlertEvent.FAILURE.value: "failed",
    AlertEvent.LATE.value: "is late",
    AlertEvent.LAG.value: "lags behind",
    AlertEvent.LOST_HISTORY.value: "has lost its place in a source",
    AlertEvent.WATERMARK.value: "waits for a watermark that cannot be read",
}

Send = Callable[[str, str, str], bool]
"""Address, title, text -> whether it was taken."""
Check = Callable[[Iterable[str], str], None]
"""Names of secrets, and where they stand. Raises for those that a definition may not have."""


@dataclass(frozen=True, slots=True)
class Message:
    title: str
    body: str


def compose(record: IncidentRecord, workflow: Workflow | None, settings: AlertSettings, url: str) -> Message:
    """The texts of the message that is due. Templates may use {workflow}, {event}, {message}, {owner}, {since}, {state}, {url}."""
    over = record.closed_at is not None
    minutes = max(0.0, (record.closed_at or record.opened_at) - record.opened_at) / 60
    values = {
        "workflow": record.workflow_id,
        "event": record.kind,
        "message": record.message,
        "owner": (workflow.owner if workflow else None) or "",
        "since": f"{minutes:.0f} min",
        "state": "over" if over else "open",
        "url": url,
    }
    own = workflow.alerting.templates if workflow and workflow.alerting else {}
    template = own.get(record.kind) or settings.templates.get(record.kind)
    title = f"{record.workflow_id} {_TITLES.get(record.kind, record.kind)}"
    if over:
        title = f"{record.workflow_id}: over after {minutes:.0f} min ({record.kind})"
    if template is not None:
        return Message(title, fill(template, values))
    next_step = f"icefloe why {record.workflow_id}"
    return Message(title, record.message if over else f"{record.message}\n{next_step}")


def fill(template: str, values: Mapping[str, str]) -> str:
    """``{name}`` by its value. Anything else in braces stays as it is: a template is text, not a program."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template)


def addresses(
    workflow: Workflow | None, settings: AlertSettings, check: Check = lambda names, where: None
) -> list[str]:
    """Where messages about a workflow go: its own channels, else the project's. Names are looked up, secrets filled in.

    ``check`` raises for secrets that a definition's own addresses may not name.
    """
    own = workflow.alerting.channels if workflow and workflow.alerting else ()
    for name in own:
        if name not in settings.channels:
            check(references(name), f"workflow {workflow.id if workflow else ''}, alerting")
    return [expand(settings.channels.get(name, name)) for name in own or settings.default]


def wanted(workflow: Workflow | None, settings: AlertSettings, kind: str) -> bool:
    events = workflow.alerting.events if workflow and workflow.alerting else tuple(AlertEvent)
    channels = (workflow.alerting.channels if workflow and workflow.alerting else ()) or settings.default
    return bool(channels) and kind in {event.value for event in events}


def by_apprise(address: str, title: str, body: str) -> bool:
    import apprise  # takes half a second, and most processes never send anything

    channel = apprise.Apprise()
    if not channel.add(address):
        raise ChannelError("this is not an address that apprise knows", hint="see the list of services of apprise")
    return bool(channel.notify(body=body, title=title))


class ChannelError(IcefloeError):
    """A channel's address cannot be used."""

    code = "alerts.channel"


class Messenger:
    """``workflow`` finds a workflow's latest definition. ``deliver`` sends what is due once; ``start`` does so whenever woken."""

    def __init__(
        self,
        database: Database,
        settings: AlertSettings,
        workflow: Callable[[str], Workflow | None],
        *,
        server_url: Callable[[], str | None],
        clock: Clock | None = None,
        send: Send = by_apprise,
        check: Check = lambda names, where: None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._workflow = workflow
        self._server_url = server_url
        self._clock = clock or Clock()
        self._send = send
        self._check = check
        self._claims: dict[int, tuple[str, float]] = {}
        self._pauses: dict[int, tuple[float, float]] = {}
        self._wake = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="icefloe-alerts", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """What is due now is still sent, if that is quick."""
        self._ended = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def wake(self) -> None:
        self._wake.set()

    def _run(self) -> None:
        while True:
            ended = self._ended
            try:
                self.deliver()
            except IcefloeError as error:
                LOG.warning("%s", error)
            except Exception:
                LOG.exception("alerts could not be sent; tried again")
            if ended:
                return
            self._wake.wait(15.0)
            self._wake.clear()

    def deliver(self) -> int:
        """Send every message that is due and not in somebody else's hands. Returns how many were sent."""
        with self._database.read() as connection:
            due = incidents.untold(connection)
        self._claims = {record.seq: self._claims[record.seq] for record in due if record.seq in self._claims}
        done = 0
        for record in due:
            if record.told == incidents.NOBODY and record.closed_at is not None:
                with self._database.write() as connection:
                    incidents.settle(connection, record.seq)
                continue
            if self._may_try(record) and self._notify(record):
                done += 1
        return done

    def _may_try(self, record: IncidentRecord) -> bool:
        now = self._clock.monotonic()
        if now < self._pauses.get(record.seq, (0.0, 0.0))[0]:
            return False
        if not record.claim:
            return True
        token, since = self._claims.setdefault(record.seq, (record.claim, now))
        if token != record.claim:
            self._claims[record.seq] = record.claim, now
            return False
        return now - since >= CLAIM_SECONDS

    def _notify(self, record: IncidentRecord) -> bool:
        token = secrets.token_hex(8)
        with self._database.write() as connection:
            if not incidents.claim(connection, record, token):
                return False
        workflow = self._workflow(record.workflow_id)
        pages = self._server_url()  # asked each time: pages may be served after the scheduler has begun
        page = f"{pages}/workflows/{record.workflow_id}" if pages else ""
        message = compose(record, workflow, self._settings, page)
        failed = [reason for reason in self._to_all(workflow, message) if reason]
        with self._database.write() as connection:
            if failed:
                # Given back, for whoever comes first; here not before a pause.
                incidents.sent(connection, record.seq, token, record.told)
            else:
                state = incidents.OVER if record.closed_at is not None else incidents.OPENED
                incidents.sent(connection, record.seq, token, state)
        if failed:
            LOG.warning("an alert about %s was not sent: %s", record.workflow_id, "; ".join(failed))
            pause = min(_LONGEST_PAUSE, 2 * self._pauses.get(record.seq, (0.0, _FIRST_PAUSE / 2))[1])
            self._pauses[record.seq] = self._clock.monotonic() + pause, pause
        return not failed

    def _to_all(self, workflow: Workflow | None, message: Message) -> list[str | None]:
        """Per channel: why it was not sent. Addresses hold secrets and are named by their kind only."""
        try:
            where = addresses(workflow, self._settings, self._check)
        except IcefloeError as error:
            return [str(error)]
        results: list[str | None] = []
        for address in where:
            kind = address.partition(":")[0]
            try:
                results.append(None if self._send(address, message.title, message.body) else f"{kind} did not take it")
            except Exception as error:
                results.append(f"{kind}: {error if isinstance(error, IcefloeError) else type(error).__name__}")
        return results
