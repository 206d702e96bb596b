"""Fuzzes YAML definitions and expressions: ``python -m tests.fuzz.definitions --minutes 30 [--seed N]``.

Every case must end, quickly, in a value or in one of Icefloe's errors; what loads must survive being written, read,
drawn and resolved; and while an expression runs, an audit hook watches that nothing is opened, imported, compiled or
started. Each case depends on (seed, number) alone: ``--seed S --only N`` replays it.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from icefloe.errors import IcefloeError
from icefloe.workflow.default_params import DEFAULTS
from icefloe.workflow.drawing import to_mermaid, to_svg, to_terminal
from icefloe.workflow.expressions import ExpressionError, check, evaluate, kinds
from icefloe.workflow.interpolation import interpolate
from icefloe.workflow.loading import inspect, load
from icefloe.workflow.model import Workflow
from icefloe.workflow.problems import DefinitionError
from icefloe.workflow.resolution import resolve_params, resolve_settings
from icefloe.workflow.scope import Scope, UnknownNameError
from icefloe.workflow.values import ParamType, TypedValue
from icefloe.workflow.yaml_writer import to_yaml
from tests.fuzz.corpus import expression_case, text_case, yaml_case

SLOWEST = 3.0
"""Seconds of processor time that a case may take."""

SCOPE = Scope(
    params={
        "x": 5,
        "y": -3,
        "d": 1.5,
        "name": "abc",
        "flag": True,
        "arr": (1, 2, 3),
        "words": ("a", "b"),
        "m": {"a": "b", "n": 3, "l": (1, 2)},
        "big": "x" * 1000,
        "RUN_TS": 1_700_000_000_000,
    },
    steps={"s": {"status": "OK", "MAESTRO_STEP_STATUS": "SUCCEEDED"}, "job.1": {"p": 1}},
    signals={"sig": {"a": 1}},
    files={"file:a.sql": "select ${x}", "s3:b/k": "$FILE{a.sql}"},
    now_ms=lambda: 1_700_000_000_000,
)
TYPES = {
    "x": ParamType.LONG,
    "y": ParamType.LONG,
    "d": ParamType.DOUBLE,
    "name": ParamType.STRING,
    "flag": ParamType.BOOLEAN,
    "arr": ParamType.LONG_ARRAY,
    "words": ParamType.STRING_ARRAY,
    "m": ParamType.MAP,
    "big": ParamType.STRING,
}


class FuzzError(Exception):
    """A case that ended in anything but a value or one of our errors."""


class Hang(BaseException):
    """Raised by the alarm into a case that takes too long."""


# --- the watchman --------------------------------------------------------------------------------------------------------


class Watchman:
    """Notes what an expression must never do. An audit hook cannot be removed, so it is armed only while one runs."""

    FORBIDDEN = (
        "open",
        "import",
        "exec",
        "compile",
        "os.",
        "subprocess.",
        "socket.",
        "ctypes.",
        "code.__new__",
        "pickle.",
    )

    def __init__(self) -> None:
        self.armed = False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[object, ...]) -> None:
        if not self.armed or not event.startswith(self.FORBIDDEN):
            return
        # A time zone that is named for the first time is read from the zone database, and only from there.
        if any(word in str(args[:1]).lower() for word in ("zoneinfo", "tzdata")) or event.startswith("os.listdir"):
            return
        self.seen.append(f"{event} {str(args)[:200]}")

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.seen.clear()
        self.armed = True
        try:
            yield
        finally:
            self.armed = False
        if self.seen:
            raise FuzzError(f"an escape: {self.seen[:3]}")


_WATCHMAN: list[Watchman] = []


def watchman() -> Watchman:
    if not _WATCHMAN:
        for warm in (
            "1 + 1",
            "new DateTime(0).withZone(DateTimeZone.forID('Europe/Berlin')).toString('yyyy')",
            "'a' == 1",
        ):
            with suppress(ExpressionError):
                evaluate(warm, SCOPE)
        _WATCHMAN.append(Watchman())
    return _WATCHMAN[0]


# --- the cases -----------------------------------------------------------------------------------------------------------


def fuzz_expression(dice: random.Random) -> str:
    text = expression_case(dice)
    try:
        checked = check(text, TYPES)
    except ExpressionError:
        checked = None
    with watchman().watching():
        try:
            value = evaluate(text, SCOPE)
        except (ExpressionError, UnknownNameError) as error:
            str(error), error.to_dict()
            return type(error).__name__
    if checked is None:
        raise FuzzError("it evaluates, but the checker could not parse it")
    if checked.problems:
        # The checker may refuse what happens to work (the arm of a ternary that is not taken), never the reverse.
        return "value in spite of a type finding"
    _check_plain(value.value)
    kind = kinds.kind_of(value.value)
    arrays = kinds.is_array(checked.kind) and kinds.is_array(kind)
    if checked.kind not in (kinds.ANY, kind) and not arrays:
        raise FuzzError(f"the checker said {checked.kind}, it is a {kind}")
    if TypedValue.from_dict(json.loads(json.dumps(value.to_dict()))) != value:
        raise FuzzError("the value does not survive JSON")
    return "value"


def _check_plain(value: object) -> None:
    if isinstance(value, tuple):
        for item in value:
            _check_plain(item)
    elif isinstance(value, dict):
        for item in value.values():
            _check_plain(item)
    elif type(value) not in (str, int, float, bool):
        raise FuzzError(f"a {type(value).__name__} came out")


def fuzz_text(dice: random.Random) -> str:
    text = text_case(dice)
    with watchman().watching():
        try:
            interpolate(text, SCOPE)
        except IcefloeError as error:
            return type(error).__name__
    return "value"


def fuzz_yaml(dice: random.Random) -> str:
    source = yaml_case(dice)
    found = inspect(source)
    for problem in found.problems:
        str(problem), problem.to_dict()
    if found.workflow is None or not found.is_valid:
        if not found.problems:
            raise FuzzError("refused without a reason")
        try:
            load(source)
        except DefinitionError:
            pass
        else:
            raise FuzzError("inspect refuses what load takes")
        if found.workflow is not None:
            _drawn(found.workflow)
        return "refused"
    workflow = found.workflow
    if load(to_yaml(workflow)).workflow != workflow:
        raise FuzzError("written and read, it is another workflow")
    if Workflow.from_dict(json.loads(json.dumps(workflow.to_dict()))).digest() != workflow.digest():
        raise FuzzError("stored and read, it is another workflow")
    _drawn(workflow)
    try:
        values = resolve_params((*DEFAULTS, *workflow.params), SCOPE)
        scope = Scope(params={**SCOPE.params, **{name: value.value for name, value in values.items()}})
        for _, step in workflow.all_steps():
            resolve_params(step.params, scope)
            resolve_settings(getattr(step, "settings", {}), scope)
    except IcefloeError as error:
        str(error)
    return "loaded"


def _drawn(workflow: Workflow) -> None:
    to_terminal(workflow)
    to_mermaid(workflow)
    svg = to_svg(workflow)
    from xml.dom import minidom

    minidom.parseString(svg.encode())


TARGETS: dict[str, Callable[[random.Random], str]] = {
    "expression": fuzz_expression,
    "text": fuzz_text,
    "yaml": fuzz_yaml,
}


# --- the loop ------------------------------------------------------------------------------------------------------------


@dataclass
class Figures:
    cases: int = 0
    slowest: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)


def _ring(signum: int, frame: FrameType | None) -> None:
    raise Hang


def run_case(seed: int, number: int, figures: Figures) -> None:
    """One case. Raises :class:`FuzzError` with everything that is needed to replay it."""
    dice = random.Random(f"{seed}:{number}")
    name = dice.choices(list(TARGETS), weights=(5, 1, 4))[0]
    began = time.process_time()
    previous = signal.signal(signal.SIGPROF, _ring)
    signal.setitimer(signal.ITIMER_PROF, SLOWEST * 2)
    try:
        outcome = TARGETS[name](dice)
    except (Exception, Hang) as error:
        trace = "".join(traceback.format_exception(error)[-6:])
        replay = f"python -m tests.fuzz.definitions --seed {seed} --only {number}"
        raise FuzzError(
            f"{name} case {number} of seed {seed}: {type(error).__name__}: {error}\n{trace}\nreplay: {replay}"
        ) from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    taken = time.process_time() - began
    if taken > SLOWEST:
        raise FuzzError(f"{name} case {number} of seed {seed} took {taken:.1f} s")
    figures.cases += 1
    figures.slowest = max(figures.slowest, taken)
    figures.outcomes[f"{name}: {outcome}"] += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", type=int, default=None, help="replay one case and show its input")
    parser.add_argument("--failures", type=Path, default=None, help="append failures to this file and go on")
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    if options.only is not None:
        dice = random.Random(f"{seed}:{options.only}")
        name = dice.choices(list(TARGETS), weights=(5, 1, 4))[0]
        case = {"expression": expression_case, "text": text_case, "yaml": yaml_case}[name](dice)
        print(name, repr(case))
        run_case(seed, options.only, Figures())
        return 0
    figures, failures, number = Figures(), 0, 0
    end = time.monotonic() + options.minutes * 60
    while time.monotonic() < end:
        try:
            run_case(seed, number, figures)
        except FuzzError as failure:
            failures += 1
            print(failure, file=sys.stderr, flush=True)
            if options.failures is None:
                break
            with options.failures.open("a", encoding="utf-8") as log:
                log.write(f"{failure}\n{'-' * 80}\n")
        number += 1
    print(
        json.dumps(
            {
                "seed": seed,
                "minutes": options.minutes,
                "cases": figures.cases,
                "failures": failures,
                "slowest_seconds": round(figures.slowest, 3),
                "outcomes": dict(figures.outcomes.most_common()),
            }
        )
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
