"""``type: Http``: one request. A service that does not answer is the platform's fault, an answer that is not wanted the user's.

The answer is read piece by piece and no further than what is kept of it: a service may send more than a worker has memory, or never
come to an end. Redirects, and the time for all of it, are bounded too.
"""

from __future__ import annotations

import codecs
import time
from typing import ClassVar

import httpx

from icefloe.steps.contract import Cause, Done, Outcome, OutcomeKind, Progress, StepContext, StepRuntime, builtin
from icefloe.workflow.step_types import HttpSettings, StepType
from icefloe.workflow.values import ParamType, TypedValue

MOST_BODY = 256 * 1024
MOST_REDIRECTS = 10
REQUEST_SECONDS = 60.0
"""For a connection, for the first word of an answer, and between two pieces of it."""
WHOLE_SECONDS = 300.0
"""For everything together: one that sends a byte a minute is never silent."""


class HttpStep(StepRuntime):
    """Outputs: ``status_code`` and ``body`` (its first 256 KiB). Sends ``Idempotency-Key``: the same for every attempt, another one when
    a restart begins the step anew."""

    type: ClassVar[StepType] = builtin("http")

    def start(self, context: StepContext) -> Progress:
        settings = context.parsed(self.type)
        assert isinstance(settings, HttpSettings)
        headers = {"Idempotency-Key": idempotency_key(context), **settings.headers}
        body = {"content": settings.body} if isinstance(settings.body, str) else {"json": settings.body}
        try:
            with httpx.Client(timeout=context.patience(REQUEST_SECONDS)) as client:
                request = client.build_request(
                    settings.method,
                    settings.url,
                    headers=headers,
                    params=settings.query or None,
                    **(body if settings.body is not None else {}),
                )
                answer, text = _exchange(client, request, context)
        except httpx.TransportError as error:
            return Done(Outcome(OutcomeKind.PLATFORM, cause=Cause(f"no answer: {error}", "http.unreachable")))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Done(Outcome(OutcomeKind.FATAL, cause=Cause(str(error), "http.request")))
        context.log(f"{settings.method} {answer.request.url} -> {answer.status_code}")
        context.log(text)
        outputs = {
            "status_code": TypedValue(ParamType.LONG, answer.status_code),
            "body": TypedValue(ParamType.STRING, text),
        }
        wanted = answer.is_success if settings.expect is None else answer.status_code in settings.expect
        if wanted:
            return Done(Outcome(OutcomeKind.SUCCEEDED, outputs))
        kind = OutcomeKind.PLATFORM if answer.status_code in (429, 502, 503, 504) else OutcomeKind.ERROR
        return Done(
            Outcome(kind, outputs, Cause(f"the answer was {answer.status_code} {answer.reason_phrase}", "http.status"))
        )


def idempotency_key(context: StepContext) -> str:
    """One for one piece of work: retries and takeovers repeat it, a restart that begins the step anew does it another time."""
    first = f"{context.key.run_id}/{context.key.step_id}"
    return first if context.era == 0 else f"{first}/{context.era}"


def _exchange(client: httpx.Client, request: httpx.Request, context: StepContext) -> tuple[httpx.Response, str]:
    """The last answer, and the beginning of its body. Redirects are followed here: httpx reads the whole body of each (0.28)."""
    deadline = time.monotonic() + WHOLE_SECONDS
    for _ in range(MOST_REDIRECTS + 1):
        check_time(context, request, deadline)
        answer = client.send(request, stream=True, follow_redirects=False)
        try:
            if answer.next_request is None:
                return answer, _beginning(answer, context, deadline)
            request = answer.next_request
        finally:
            answer.close()
    raise httpx.TooManyRedirects(f"more than {MOST_REDIRECTS} redirects", request=request)


def _beginning(answer: httpx.Response, context: StepContext, deadline: float) -> str:
    """The first 256 KiB of the body, as text. The rest is not read: the connection is closed instead."""
    decoder = codecs.getincrementaldecoder(answer.encoding or "utf-8")("replace")
    pieces: list[str] = []
    room = MOST_BODY
    for piece in answer.iter_bytes():  # as they arrive
        check_time(context, answer.request, deadline)
        pieces.append(decoder.decode(piece[:room], final=len(piece) >= room))
        room -= len(piece)
        if room <= 0:
            return "".join(pieces)
    return "".join([*pieces, decoder.decode(b"", final=True)])


def check_time(context: StepContext, request: httpx.Request, deadline: float) -> None:
    """Raises when the attempt is over, or the exchange takes too long."""
    context.check()
    if time.monotonic() > deadline:
        raise httpx.ReadTimeout(f"it was not over after {WHOLE_SECONDS:.0f} s", request=request)
