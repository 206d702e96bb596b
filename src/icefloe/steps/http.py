"""``type: Http``: one request. A service that does not answer is the platform's fault, an answer that is not wanted the user's."""

from __future__ import annotations

from typing import ClassVar

import httpx

from icefloe.steps.contract import Cause, Done, Kind, Outcome, Progress, StepContext, StepRuntime, builtin
from icefloe.workflow.step_types import HttpSettings, StepType
from icefloe.workflow.values import ParamType, TypedValue

MOST_BODY = 256 * 1024
REQUEST_SECONDS = 60.0


class HttpStep(StepRuntime):
    """Outputs: ``status_code`` and ``body`` (its first 256 KiB). Sends ``Idempotency-Key``, the same for every attempt."""

    type: ClassVar[StepType] = builtin("http")

    def start(self, context: StepContext) -> Progress:
        settings = context.parsed(self.type)
        assert isinstance(settings, HttpSettings)
        headers = {"Idempotency-Key": f"{context.key.run_id}/{context.key.step_id}", **settings.headers}
        body = {"content": settings.body} if isinstance(settings.body, str) else {"json": settings.body}
        try:
            with httpx.Client(timeout=context.patience(REQUEST_SECONDS), follow_redirects=True) as client:
                answer = client.request(
                    settings.method,
                    settings.url,
                    headers=headers,
                    params=settings.query or None,
                    **(body if settings.body is not None else {}),
                )
        except httpx.TransportError as error:
            return Done(Outcome(Kind.PLATFORM, cause=Cause(f"no answer: {error}", "http.unreachable")))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Done(Outcome(Kind.FATAL, cause=Cause(str(error), "http.request")))
        context.log(f"{settings.method} {answer.request.url} -> {answer.status_code}")
        text = answer.text[:MOST_BODY]
        context.log(text)
        outputs = {
            "status_code": TypedValue(ParamType.LONG, answer.status_code),
            "body": TypedValue(ParamType.STRING, text),
        }
        wanted = answer.is_success if settings.expect is None else answer.status_code in settings.expect
        if wanted:
            return Done(Outcome(Kind.SUCCEEDED, outputs))
        kind = Kind.PLATFORM if answer.status_code in (429, 502, 503, 504) else Kind.ERROR
        return Done(
            Outcome(kind, outputs, Cause(f"the answer was {answer.status_code} {answer.reason_phrase}", "http.status"))
        )
