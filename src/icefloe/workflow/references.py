"""Names and expressions: does everything that is referred to exist where it is referred to, and do the types fit?

A step sees the default and system parameters, the workflow's, those of the foreach blocks around it, its own, and the
results of steps that come before it. A name that is none of these may still be given by whoever starts the run (the
slides' ``${TARGET_TABLE}`` is), so it is a warning; a near miss of a name that exists is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from icefloe.workflow.default_params import DEFAULTS, SYSTEM
from icefloe.workflow.expressions import ExpressionError, check, kinds
from icefloe.workflow.files import is_dynamic, is_dynamic_script, settings_texts
from icefloe.workflow.graph import Graph
from icefloe.workflow.interpolation import names_in
from icefloe.workflow.model import (
    Container,
    ForeachStep,
    Param,
    SignalTrigger,
    Step,
    TypedStep,
    Workflow,
    walk,
)
from icefloe.workflow.places import Places
from icefloe.workflow.problems import Findings, Position, did_you_mean, suggestion
from icefloe.workflow.reserved import fold, is_near
from icefloe.workflow.resolution import LOOP_INDEX, find_cycle, texts
from icefloe.workflow.values import ParamType, clip


@dataclass(frozen=True, slots=True)
class View:
    """What can be seen at one place: parameters with their types (None: not known yet), and steps that have ended."""

    types: Mapping[str, ParamType | None]
    steps: frozenset[str] = frozenset()

    def with_params(self, params: Iterable[Param]) -> View:
        return replace(self, types={**self.types, **{param.name: param.type for param in params}})

    def with_loop(self, step: ForeachStep) -> View:
        inside: dict[str, ParamType | None] = {LOOP_INDEX: ParamType.LONG}
        for param in step.loop_params:
            inside[param.name] = param.type.element if param.type.is_array else None
        return replace(self, types={**self.types, **{p.name: p.type for p in step.params}, **inside})

    def with_steps(self, steps: Iterable[str]) -> View:
        return replace(self, steps=self.steps | frozenset(steps))

    @property
    def known_types(self) -> dict[str, ParamType]:
        return {name: kind for name, kind in self.types.items() if kind is not None}


def check_references(workflow: Workflow, findings: Findings, places: Places) -> None:
    """All findings about names and expressions of a workflow."""
    _Checker(workflow, findings, places).run()


@dataclass(slots=True)
class _Checker:
    workflow: Workflow
    findings: Findings
    places: Places
    all_steps: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.all_steps = frozenset(step.id for _, step in walk(self.workflow))

    def run(self) -> None:
        base: dict[str, ParamType | None] = {**SYSTEM, **{param.name: param.type for param in DEFAULTS}}
        view = View(base).with_params(self.workflow.params)
        self._params(self.workflow.params, view, None)
        self._text(self.workflow.timeout, view, self.places.workflow)
        self._triggers(view)
        self._container(self.workflow, view)

    def _triggers(self, view: View) -> None:
        for index, trigger in enumerate(self.workflow.triggers):
            place = self.places.triggers[index] if index < len(self.places.triggers) else self.places.workflow
            for param in trigger.params:
                self._param(param, View(view.types), place)
            if isinstance(trigger, SignalTrigger):
                # A signal's own parameters are visible here and unknown at push: only the form can be checked.
                for expression in (trigger.condition, trigger.dedup):
                    if expression is not None:
                        wanted = (kinds.BOOLEAN,) if expression is trigger.condition else ()
                        self._expression(expression, None, place, wanted)

    def _container(self, container: Container, view: View) -> None:
        graph = Graph.of(container)
        for step in container.steps:
            ended = view.with_steps(graph.ancestors(step.id)) if step.id in graph.steps else view
            self._step(step, ended)
        for edge in container.transitions:
            if edge.condition is not None and not edge.otherwise:
                source = next((step for step in container.steps if step.id == edge.source), None)
                seen = view.with_steps({edge.source, *graph.ancestors(edge.source)} & self.all_steps)
                seen = seen.with_params(source.params) if source is not None else seen
                self._expression(edge.condition, seen, self.places.edge(edge), (kinds.BOOLEAN,), "a condition")

    def _step(self, step: Step, view: View) -> None:
        place = self.places.step(step.id)
        inner = view.with_params(step.params)
        self._params(step.params, inner, step.id)
        self._text(step.timeout, inner, place)
        for dependency in step.signal_dependencies:
            for match in dependency.match:
                self._param(match.param, inner, place)
        for watermark in step.watermark_dependencies:
            self._param(watermark.reached, inner, place)
        for output in step.signal_outputs:
            for param in output.params:
                self._param(param, inner.with_steps([step.id]), place)
        if isinstance(step, TypedStep):
            own_script = step.type == "Shell"
            if is_dynamic_script(step.settings.get("script")):
                self._dynamic(self.places.setting(step.id, ("script",)))
            for path, text in settings_texts(step.settings):
                self._text(text, inner, self.places.setting(step.id, path), shell=own_script)
        elif isinstance(step, ForeachStep):
            for param in step.loop_params:
                self._param(param, inner, self.places.param(step.id, param.name))
            self._container(step, view.with_loop(step))

    def _params(self, params: tuple[Param, ...], view: View, step_id: str | None) -> None:
        cycle = find_cycle(params)
        if cycle is not None:
            circle = " -> ".join(clip(name) for name in cycle)
            self.findings.error(
                "param.cycle",
                f"parameters refer to each other in a circle: {circle}",
                self.places.param(step_id, cycle[0]),
            )
        for param in params:
            self._param(param, view, self.places.param(step_id, param.name))

    def _param(self, param: Param, view: View, place: Position | None) -> None:
        if param.expression is not None:
            checked = self._expression(param.expression, view, place, (), f"the parameter '{clip(param.name)}'")
            if checked is not None and not _gives(checked, param.type):
                self.findings.error(
                    "param.type",
                    f"the parameter '{clip(param.name)}' is a {param.type.value}, its expression gives a {checked}",
                    place,
                    _retype(param.name, checked),
                )
        for text in texts(param.value):
            self._text(text, view, place)
        for member in param.members or ():
            self._param(member, view, place)

    def _text(self, text: object, view: View, place: Position | None, *, shell: bool = False) -> None:
        if isinstance(text, str):
            if is_dynamic(text):
                self._dynamic(place)
            for name in names_in(text):
                self._name(name, view, place, shell=shell)

    def _dynamic(self, place: Position | None) -> None:
        message = "a file's name cannot depend on a parameter: files are read when the workflow is pushed"
        self.findings.error("file.dynamic", message, place, "name each file, and choose between steps with a condition")

    def _expression(
        self,
        expression: str,
        view: View | None,
        place: Position | None,
        wanted: tuple[str, ...],
        what: str = "the expression",
    ) -> str | None:
        """The expression's kind, or None when it has errors. Without a view, names are not looked up."""
        try:
            found = check(expression, view.known_types if view is not None else {})
        except ExpressionError as error:
            self.findings.error(error.code, f"{what}: {error}", place, error.hint)
            return None
        for problem in found.problems:
            self.findings.error(problem.code, f"{what}: {problem}", place, problem.hint)
        if view is not None:
            for name in found.names:
                if name not in found.optional:
                    self._name(name, view, place)
            for step, _ in found.steps:
                self._step_reference(step, view, place)
        if wanted and not found.problems and found.kind not in (*wanted, kinds.ANY):
            names = " or ".join(wanted)
            self.findings.error("expression.type", f"{what} must give a {names}, this gives a {found.kind}", place)
        return None if found.problems else found.kind

    def _name(self, name: str, view: View, place: Position | None, *, shell: bool = False) -> None:
        if name in view.types:
            return
        for step in _step_parts(name):
            if step in self.all_steps:
                self._step_reference(step, view, place)
                return
        for step in _step_parts(name):
            meant = did_you_mean(step, self.all_steps)
            if meant is not None:
                self.findings.error(
                    "param.unknown-step",
                    f"'{clip(name)}': there is no step '{clip(step)}'",
                    place,
                    f"did you mean '{meant}'?",
                )
                return
        near = next((known for known in view.types if is_near(fold(name), fold(known))), None)
        if near is not None:
            self.findings.error(
                "param.unknown", f"there is no parameter '{clip(name)}'", place, f"did you mean '{near}'?"
            )
            return
        hint = f"define it, or declare that the run gives it: '{name}(provided)':"
        if shell:
            hint = f"for the shell's own variable write $${{{name}}}; else define the parameter"
        message = f"the parameter '{clip(name)}' is not defined here; whoever starts the run must give it"
        self.findings.warning("param.undefined", message, place, hint)

    def _step_reference(self, step: str, view: View, place: Position | None) -> None:
        if step not in self.all_steps:
            self.findings.error(
                "param.unknown-step",
                f"there is no step '{clip(step)}'",
                place,
                suggestion(step, sorted(self.all_steps), "steps"),
            )
        elif step not in view.steps:
            self.findings.error(
                "param.step-order",
                f"the step '{clip(step)}' has not run when this is evaluated",
                place,
                f"add {step} -> … to the dag before it",
            )


def _step_parts(name: str) -> Iterator[str]:
    """The steps that ``step__param`` may mean."""
    at = name.find("__")
    while at > 0:
        yield name[:at]
        at = name.find("__", at + 1)


_SCALARS = (kinds.STRING, kinds.LONG, kinds.DOUBLE, kinds.BOOLEAN)


def _gives(kind: str, declared: ParamType) -> bool:
    """May an expression of this kind be a parameter of that type?"""
    if kind == kinds.ANY:
        return True
    if declared is ParamType.STRING:
        return kind in _SCALARS
    if declared in (ParamType.MAP, ParamType.STRING_MAP):
        return kind == kinds.MAP
    if declared.is_array and kind == kinds.EMPTY_ARRAY:
        return True
    return kinds.fits(kind, declared.value) and kind != kinds.NULL


def _retype(name: str, kind: str) -> str | None:
    """What to write when the declared type is the mistake."""
    if kind in ParamType.__members__:
        return f"write '!{clip(name)}<{ParamType[kind].notation}>'"
    return "turn it into a text: .toString('yyyyMMdd')" if kind == kinds.DATETIME else None
