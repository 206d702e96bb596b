"""Parameters that every workflow has without defining them.

``DEFAULTS`` is the lowest layer: a definition or a run may override each of them. ``SYSTEM`` are names that the engine
puts into every scope itself.
"""

from __future__ import annotations

from icefloe.workflow.model import Param, ParamMode
from icefloe.workflow.values import ParamType

_LOCAL = "new DateTime(RUN_TS).withZone(DateTimeZone.forID(WORKFLOW_CRON_TIMEZONE))"
_UTC = "new DateTime(RUN_TS)"


def _computed(name: str, expression: str, kind: ParamType = ParamType.STRING) -> Param:
    return Param(name, kind, expression=expression, mode=ParamMode.MUTABLE_ON_START)


DEFAULTS: tuple[Param, ...] = (
    _computed("RUN_TS", "System.currentTimeMillis()", ParamType.LONG),
    Param("WORKFLOW_CRON_TIMEZONE", ParamType.STRING, value="UTC", mode=ParamMode.MUTABLE_ON_START),
    _computed("TARGET_RUN_DATE", f"{_LOCAL}.toString('yyyyMMdd')"),
    _computed("TARGET_RUN_HOUR", f"{_LOCAL}.toString('HH')"),
    _computed("LOCAL_RUN_DATE", f"{_LOCAL}.toString('yyyyMMdd')"),
    _computed("LOCAL_RUN_HOUR", f"{_LOCAL}.toString('HH')"),
    _computed("RUN_DATE", f"{_UTC}.toString('yyyyMMdd')"),
    _computed("RUN_HOUR", f"{_UTC}.toString('HH')"),
    _computed("RUN_DATE_MINUS_1", f"{_UTC}.minusDays(1).toString('yyyyMMdd')"),
)

SYSTEM: dict[str, ParamType] = {
    "workflow_id": ParamType.STRING,
    "workflow_version": ParamType.LONG,
    "run_id": ParamType.STRING,
    "run_number": ParamType.LONG,
    "owner": ParamType.STRING,
    "step_id": ParamType.STRING,
    "step_attempt_id": ParamType.LONG,
}

STEP_FIELDS = ("step_id", "step_attempt_id")
"""Those of the names above that only a step has."""

RUN_FIELDS: dict[str, ParamType] = {
    **{name: kind for name, kind in SYSTEM.items() if name not in STEP_FIELDS},
    "INITIATOR_TYPE": ParamType.STRING,
    "INITIATOR_RUNNER_NAME": ParamType.STRING,
}
"""What ``params.getFromInstance('…')`` knows. ``owner`` only where the workflow has one."""

STEP_STATUS = "MAESTRO_STEP_STATUS"
STEP_END_TIME = "MAESTRO_STEP_END_TIME"
"""Every ended step publishes these two besides its own parameters."""
