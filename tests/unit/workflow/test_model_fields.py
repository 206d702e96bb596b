"""Every field of the model is in the YAML notation, the canonical writer, the Python builder, the JSON Schema and the reference.

One workflow says everything that the model can say, each field other than its default. A field that is added to the model is
in it by itself, and every test here fails until it is known everywhere.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from icefloe.workflow import builder, model, notation
from icefloe.workflow.declarations import FieldDeclaration, declaration, declared
from icefloe.workflow.loading import inspect
from icefloe.workflow.model import Param, Transition, Workflow
from icefloe.workflow.problems import Severity
from icefloe.workflow.reserved import LEVELS
from icefloe.workflow.schema import json_schema
from icefloe.workflow.step_types import BUILTIN
from icefloe.workflow.values import ParamType
from icefloe.workflow.yaml_writer import to_yaml

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "definitions.md"
REGION = Param("region", ParamType.STRING, value="eu")

# Where the type alone does not say what may stand there.
SAMPLES: dict[str, Any] = {
    "AlertEvent": (model.AlertEvent.LATE,),
    "Alerting.templates": {"late": "too late"},
    "CronTrigger.cron": "0 3 * * *",
    "ForeachStep.loop_params": (Param("hour", ParamType.LONG_ARRAY, value=(1, 2)),),
    "ForeachStep.steps": (model.NoOpStep(id="inner"), model.NoOpStep(id="inmost")),
    "ForeachStep.transitions": (Transition("inner", "inmost"),),
    "IncrementalTrigger.operations": ("delete",),
    "IncrementalTrigger.partitions": {"day": [1, 2]},
    "IncrementalTrigger.require": "all",
    "RunStrategy.rule": model.RunRule.PARALLEL,
    "ScheduleBase.end": "2024-12-31",
    "ScheduleBase.start": "2024-01-31",
    "SignalTrigger.condition": "1 < 2",
    "SignalTrigger.dedup": "'a'",
    "SubworkflowStep.version": "latest",
    "TypedStep.settings": {"script": "echo"},
    "TypedStep.type": "Shell",
    "WatermarkDependency.reached": Param("reached", ParamType.LONG, value=20260301),
}


def sample(cls: type, item: FieldDeclaration) -> Any:
    """A value that is not the default."""
    known = next((value for base in cls.__mro__ if (value := SAMPLES.get(f"{base.__name__}.{item.name}"))), None)
    if known is not None:
        return known
    if item.name == "timezone":
        return "Europe/Berlin"
    if item.is_duration:
        return 90.0
    if item.type is bool:
        return not item.default
    if item.type in (int, float):
        return item.type(item.limits["least"] + 4)
    if item.is_choice:
        return next(option for option in item.type if option != item.default)
    if item.type is str:
        return "word"
    if item.element is str:
        return ("word",)
    if item.element is model.AlertEvent:
        return (model.AlertEvent.LATE,)
    if item.element is Param:
        return (REGION,)
    if dataclasses.is_dataclass(item.element):
        return (filled(item.element),)
    if item.type is Param:
        return Param("day", ParamType.LONG, value=20260301)
    assert dataclasses.is_dataclass(item.type), f"a sample for {cls.__name__}.{item.name}, please"
    return filled(item.type)


def filled(cls: Any, **known: Any) -> Any:
    return cls(**{item.name: sample(cls, item) for item in declared(cls) if item.name not in known}, **known)


STEPS = tuple(filled(cls, id=f"step_{kind}") for kind, cls in model.STEP_KINDS.items())
TRIGGERS = tuple(filled(cls) for cls in model.TRIGGER_KINDS.values())
EVERYTHING = filled(
    Workflow, steps=STEPS, transitions=(Transition("step_job", "step_noop"),), triggers=TRIGGERS, params=(REGION,)
)


def parts(part: Any) -> Iterator[Any]:
    """The workflow and every part of it that is declared as a class of the model."""
    yield part
    for item in declared(type(part)):
        value = getattr(part, item.name)
        for inner in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(inner) and not isinstance(inner, Param | Transition):
                yield from parts(inner)


CLASSES = {type(part) for part in parts(EVERYTHING)}
FIELDS = [(cls, item) for cls in sorted(CLASSES, key=lambda cls: cls.__name__) for item in declared(cls)]


def named(value: Any) -> str | None:
    return value.__name__ if isinstance(value, type) else value.name if isinstance(value, FieldDeclaration) else None


def test_the_workflow_says_everything_that_the_model_can_say() -> None:
    unsaid = [
        f"{type(part).__name__}.{item.name}"
        for part in parts(EVERYTHING)
        for item in declared(type(part))
        if item.is_default(getattr(part, item.name)) and type(part) is not model.NoOpStep
    ]
    assert unsaid == []
    bases = {model.StepBase, model.TriggerBase, model.ScheduleBase}
    known = {cls for cls in vars(model).values() if dataclasses.is_dataclass(cls) and cls.__module__ == model.__name__}
    assert known - bases - {Param, Transition} == CLASSES


@pytest.mark.parametrize(("cls", "item"), FIELDS, ids=named)
def test_every_field_says_what_it_means(cls: type, item: FieldDeclaration) -> None:
    assert item.doc


def test_what_is_written_in_yaml_reads_back_as_the_same_workflow() -> None:
    found = inspect(to_yaml(EVERYTHING))
    errors = {problem.code for problem in found.problems if problem.severity is Severity.ERROR}
    assert errors == {"trigger.join-keys"}  # a key that is known, and refused with a reason
    assert found.workflow == EVERYTHING


@pytest.mark.parametrize("cls", sorted(CLASSES, key=lambda cls: cls.__name__), ids=named)
def test_every_field_is_a_reserved_key_of_its_level(cls: type) -> None:
    words = {word: item.key for item in declared(cls) for word in (item.key, *item.others) if item.name != "settings"}
    assert any(all(level.match(word) == key for word, key in words.items()) for level in LEVELS.values())


# --- Python --------------------------------------------------------------------------------------------------------------

TRIGGER_FUNCTIONS: dict[type, tuple[Callable[..., Any], dict[str, str]]] = {
    model.CronTrigger: (builder.cron, {"cron": "expression", "fuzzy_max_delay": "jitter"}),
    model.IntervalTrigger: (builder.every, {"every": "interval", "fuzzy_max_delay": "jitter"}),
    model.SignalTrigger: (builder.signals, {}),
    model.WatermarkTrigger: (builder.watermark, {}),
    model.IncrementalTrigger: (builder.incremental, {}),
}


def options(part: Any, *without: str) -> dict[str, Any]:
    given = {item.name: getattr(part, item.name) for item in declared(type(part)) if item.name not in without}
    return given | ({"params": {"region": "eu"}} if "params" in given else {})


def in_python(trigger: Any) -> Any:
    function, names = TRIGGER_FUNCTIONS[type(trigger)]
    given = {names.get(name, name): value for name, value in options(trigger).items()}
    several = given.pop("tables", None) or given.pop("signals", ())
    return function(*several, **given)


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: type(trigger).__name__)
def test_a_trigger_can_be_said_in_python(trigger: Any) -> None:
    assert in_python(trigger) == trigger


def test_everything_can_be_said_in_python() -> None:
    job, _, subworkflow, foreach = STEPS
    triggers = tuple(trigger for trigger in TRIGGERS if not isinstance(trigger, model.SignalTrigger))
    strategy = EVERYTHING.run_strategy
    flow = builder.Pipeline(
        **options(EVERYTHING, "run_strategy", "steps", "transitions", "triggers"),
        run_strategy=strategy.rule.value,
        concurrency=strategy.concurrency,
        triggers=triggers,
    )
    first = flow.job(**options(job))
    last = flow.noop(**options(STEPS[1]))
    flow.subworkflow(**options(subworkflow))
    common = options(foreach, "id", "concurrency", "loop_params", "steps", "transitions")
    with flow.foreach(foreach.id, concurrency=foreach.concurrency, common=common, hour=[1, 2]) as each:
        each.noop("inner") >> each.noop("inmost")
    first >> last
    assert flow.workflow() == dataclasses.replace(EVERYTHING, triggers=triggers)


@pytest.mark.parametrize("cls", [model.RetryPolicy, model.Alerting], ids=named)
def test_a_policy_can_be_a_map_in_python_as_in_yaml(cls: type) -> None:
    name = {model.RetryPolicy: "retry", model.Alerting: "alerting"}[cls]
    written = yaml.safe_load(to_yaml(EVERYTHING))["Workflow"][name]
    flow = builder.Pipeline("w", **{name: written})
    flow.noop("a")
    assert getattr(flow.workflow(), name) == getattr(EVERYTHING, name)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: builder.incremental("t", min_rows=0), "min_rows"),
        (lambda: builder.incremental("t", allow_cycle=1001), "allow_cycle"),
        (lambda: builder.incremental("t", max_age="soon"), "'soon' is not a duration"),
        (lambda: builder.incremental("t", operations=["apend"]), "'apend' is no data operation"),
        (lambda: builder.incremental("t", partitions={"day": [1.5]}), "a value or a list of values"),
        (lambda: builder.watermark("t", "0s"), "every"),
        (lambda: builder.cron("@daily", start="soon"), "'soon' is no date"),
    ],
)
def test_the_limits_of_yaml_hold_in_python(make: Callable[[], Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()


@pytest.mark.parametrize("name", ["IpCapture", "Spark", "Shell", "Python", "Http"])
def test_every_setting_can_be_said_in_python(name: str) -> None:
    step_type = BUILTIN.find(name)
    assert step_type is not None and step_type.settings is not None
    method = {"IpCapture": builder.Pipeline.capture}.get(name) or getattr(builder.Pipeline, step_type.key)
    known = signature(method).parameters.keys()
    assert "settings" in known or step_type.settings.model_fields.keys() <= known


# --- schema and reference ------------------------------------------------------------------------------------------------


def test_what_is_written_fits_the_schema() -> None:
    jsonschema.Draft202012Validator(json_schema()).validate(yaml.safe_load(to_yaml(EVERYTHING)))


def schema_objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            yield schema["properties"]
        for inner in schema.values():
            yield from schema_objects(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from schema_objects(inner)


OBJECTS = list(schema_objects(json_schema()))
NOTATIONS = [cls for cls in vars(notation).values() if isinstance(cls, type) and cls.__module__ == notation.__name__]
NOTATION_FIELDS = [(cls, item) for cls in NOTATIONS for item in declared(cls)]
WRITTEN = [
    (cls, item)
    for cls, item in [*FIELDS, *NOTATION_FIELDS]
    if item is not declaration(model.TypedStep, "settings") and cls is not notation.Range
]


@pytest.mark.parametrize(("cls", "item"), WRITTEN, ids=named)
def test_the_schema_has_every_key_with_its_meaning(cls: type, item: FieldDeclaration) -> None:
    for word in (item.key, *item.others):
        described = [str(properties[word].get("description")) for properties in OBJECTS if word in properties]
        assert any(text.startswith(item.doc) for text in described), word


CODE = re.findall(r"```yaml\n(.*?)```|`([^`\n]+)`", REFERENCE.read_text(encoding="utf-8"), re.DOTALL)
DOCUMENTED = set(re.findall(r"\w+", " ".join("".join(part) for part in CODE)))


@pytest.mark.parametrize(("cls", "item"), [*FIELDS, *NOTATION_FIELDS], ids=named)
def test_the_reference_has_every_key(cls: type, item: FieldDeclaration) -> None:
    under_its_type = (cls, item.name) == (model.TypedStep, "settings")
    assert item.key.lower() in {word.lower() for word in DOCUMENTED} or under_its_type
