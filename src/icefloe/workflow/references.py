"""Names and expressions: does everything that is referred to exist where it is referred to, and do the types fit?

A step sees the default and system parameters, the workflow's, those of the foreach blocks around it, its own, and the
results of steps that come before it. A name that is none of these may still be given by whoever starts the run (the
slides' ``${TARGET_TABLE}`` is), so it is a warning; a near miss of a name that exists is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from icefloe.workflow.default_params import DEFAULTS, STEP_FIELDS, SYSTEM
from icefloe.workflow.expressions import ExpressionError, check, kinds
from icefloe.workflow.files import is_dynamic, is_dynamic_script, settings_texts
from icefloe.workflow.graph import Graph
from icefloe.workflow.interpolation import names_in, whole_reference
from icefloe.workflow.model import (
    Container,
    ForeachStep,
    NoOpStep,
    Param,
    SignalTrigger,
    Step,
    TypedStep,
    Workflow,
    walk,
)
from icefloe.workflow.param_calls import NOWHERE, Surroundings, check_calls, published
from icefloe.workflow.places import Places
from icefloe.workflow.problems import Findings, Position, did_you_mean, suggestion
from icefloe.workflow.reserved import fold, is_near
from icefloe.workflow.resolution import LOOP_INDEX, find_cycle, references, texts
from icefloe.workflow.values import ParamType, clip


@dataclass(frozen=True, slots=True)
class View:
    """What can be seen at one place: parameters with their types (None: not known yet), and steps that have ended."""

    types: Mapping[str, ParamType | None]
    steps: frozenset[str] = frozenset()
    around: Surroundings = NOWHERE

    def with_params(self, params: Iterable[Param]) -> View:
        return replace(self, types={**self.types, **{param.name: param.type for param in params}})

    def with_loop(self, step: ForeachStep) -> View:
        inside: dict[str, ParamType | None] = {LOOP_INDEX: ParamType.LONG}
        for param in step.loop_params:
            inside[param.name] = param.type.element if param.type.is_array else None
        return replace(self, types={**self.types, **{p.name: p.type for p in step.params}, **inside})

    def at(self, step: Step, *, leaving: bool = False) -> View:
        """Of a step: with its fields and parameters, and the signals it waits for; or on leaving it."""
        own = {**{name: SYSTEM[name] for name in STEP_FIELDS}, **{param.name: param.type for param in step.params}}
        if leaving and isinstance(step, ForeachStep):
            own |= {param.name: param.type for param in step.loop_params if param.type.is_array}
        waits_for = None if leaving else tuple(one.name for one in step.signal_dependencies)
        around = replace(self.around, step=step, leaving=leaving, waits_for=waits_for)
        seen = replace(self, types={**self.types, **own}, around=around)
        return seen.with_steps([step.id]) if leaving else seen

    def waiting(self) -> View:
        """While the step still waits for its signals, nothing can be read from them."""
        return replace(self, around=replace(self.around, waits_for=None))

    def without(self, name: str, outer: View) -> View:
        """As one parameter sees it: its own name means the one outside, if there is one."""
        types = {known: kind for known, kind in self.types.items() if known != name}
        return replace(self, types=types | ({name: outer.types[name]} if name in outer.types else {}))

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
    all_steps: Mapping[str, Step] = field(init=False)

    def __post_init__(self) -> None:
        self.all_steps = {step.id: step for _, step in walk(self.workflow)}

    def run(self) -> None:
        owned = self.workflow.owner is not None
        system = {name: kind for name, kind in SYSTEM.items() if name not in STEP_FIELDS and (name != "owner" or owned)}
        base: dict[str, ParamType | None] = {**system, **{param.name: param.type for param in DEFAULTS}}
        triggers = [trigger for trigger in self.workflow.triggers if isinstance(trigger, SignalTrigger)]
        signals = frozenset(signal.name for trigger in triggers for signal in trigger.signals)
        outer = View(base, around=Surroundings(signals, owned))
        view = outer.with_params(self.workflow.params)
        self._params(self.workflow.params, view, outer, None)
        self._text(self.workflow.timeout, view, self.places.workflow)
        self._triggers(view)
        self._container(self.workflow, view)

    def _triggers(self, view: View) -> None:
        for index, trigger in enumerate(self.workflow.triggers):
            place = self.places.triggers[index] if index < len(self.places.triggers) else self.places.workflow
            for param in trigger.params:
                self._param(param, view.without(param.name, View({})), place)
            if isinstance(trigger, SignalTrigger):
                # A signal's own parameters are visible here and unknown at push.
                around = Surroundings(frozenset(signal.name for signal in trigger.signals), of_run=False)
                for expression in (trigger.condition, trigger.dedup):
                    if expression is not None:
                        wanted = (kinds.BOOLEAN,) if expression is trigger.condition else _STORABLE
                        self._expression(expression, View({}, around=around), place, wanted, names=False)

    def _container(self, container: Container, view: View) -> None:
        graph = Graph.of(container)
        for step in container.steps:
            ended = view.with_steps(graph.ancestors(step.id)) if step.id in graph.steps else view
            self._step(step, ended)
        for edge in container.transitions:
            if edge.condition is not None and not edge.otherwise:
                source = next((step for step in container.steps if step.id == edge.source), None)
                seen = view.with_steps({edge.source, *graph.ancestors(edge.source)} & self.all_steps.keys())
                seen = seen.at(source, leaving=True) if source is not None else seen
                self._expression(edge.condition, seen, self.places.edge(edge), (kinds.BOOLEAN,), "a condition")

    def _step(self, step: Step, view: View) -> None:
        place = self.places.step(step.id)
        inner = view.at(step)
        self._params(step.params, inner, view, step.id)
        self._text(step.timeout, inner, place)
        for dependency in step.signal_dependencies:
            for match in dependency.match:
                self._param(match.param, inner.waiting(), place)
                self._waits_for_itself(match.param, step, place)
        for watermark in step.watermark_dependencies:
            self._param(watermark.reached, inner.waiting(), place)
            self._waits_for_itself(watermark.reached, step, place)
        for output in step.signal_outputs:
            outgoing = view.at(step, leaving=True)
            for param in output.params:
                self._param(param, outgoing.without(param.name, outgoing), place)
        if isinstance(step, TypedStep):
            own_script = step.type == "Shell"
            if is_dynamic_script(step.settings.get("script")):
                self._dynamic(self.places.setting(step.id, ("script",)))
            for path, text in settings_texts(step.settings):
                self._text(text, inner, self.places.setting(step.id, path), shell=own_script)
        elif isinstance(step, ForeachStep):
            for param in step.loop_params:
                self._param(param, inner, self.places.param(step.id, param.name))
                self._loop_param(param, inner, step.id)
            self._container(step, view.with_loop(step))

    def _loop_param(self, param: Param, view: View, step_id: str) -> None:
        """A loop walks over a list: one that is written there, or the one another parameter is."""
        if param.type is not ParamType.STRING or not isinstance(param.value, str):
            return
        name = whole_reference(param.value)
        kind = view.types.get(name) if name is not None else ParamType.STRING
        if kind is not None and not kind.is_array:
            what = f"'{clip(name)}' is a {kind.value}" if name is not None else f"'{clip(param.value)}' is a text"
            self.findings.error(
                "foreach.params",
                f"the loop parameter '{clip(param.name)}' must be a list, {what}",
                self.places.param(step_id, param.name),
                f"'!{clip(param.name)}<array<long>>' for an expression, or \"${{step__param}}\" for another parameter's list",
            )

    def _waits_for_itself(self, param: Param, step: Step, place: Position | None) -> None:
        """What a step waits for must not need what it waits for."""
        own = {known.name: known for known in step.params}
        reached: set[str] = set()
        stack = list(references(param))
        while stack:
            name = stack.pop()
            if name in own and name not in reached:
                reached.add(name)
                stack.extend(references(own[name]))
        for name in sorted(reached):
            expression = own[name].expression
            if expression is not None and "getFromSignalDependency" in expression:
                message = f"the step waits for a signal that depends on '{clip(name)}', which is read from that signal"
                self.findings.error("signal.circle", message, place)

    def _params(self, params: tuple[Param, ...], view: View, outer: View, step_id: str | None) -> None:
        cycle = find_cycle(params)
        if cycle is not None:
            circle = " -> ".join(clip(name) for name in cycle)
            self.findings.error(
                "param.cycle",
                f"parameters refer to each other in a circle: {circle}",
                self.places.param(step_id, cycle[0]),
            )
        for param in params:
            place = self.places.param(step_id, param.name)
            if param.name in references(param) and param.name not in outer.types:
                self._own_name(param, place, in_step=step_id is not None)
            self._param(param, view.without(param.name, outer), place, own_name=param.name)

    def _own_name(self, param: Param, place: Position | None, *, in_step: bool) -> None:
        """``x: ${x}`` in a step hands on what the run was given; everything else that needs itself has no value."""
        name = clip(param.name)
        message = f"the parameter '{name}' refers to itself, and there is no other '{name}' outside"
        if param.expression is not None and not _asks_for(param.expression, param.name):
            return  # it only asks whether there is one
        if not in_step:
            self.findings.error(
                "param.cycle", message, place, "a run that gives it replaces this definition: say (provided)"
            )
        elif param.expression is not None:
            self.findings.error(
                "param.cycle", message, place, f"declare the other in the workflow: '{name}(provided)':"
            )
        else:
            hint = f"define it, or declare that the run gives it: '{name}(provided)':"
            self.findings.warning("param.undefined", f"{message}; whoever starts the run must give it", place, hint)

    def _param(self, param: Param, view: View, place: Position | None, *, own_name: str | None = None) -> None:
        """``own_name`` has been looked at already."""
        if param.expression is not None:
            what = f"the parameter '{clip(param.name)}'"
            checked = self._expression(param.expression, view, place, (), what, own_name=own_name)
            if checked is not None and not _gives(checked, param.type):
                self.findings.error(
                    "param.type",
                    f"the parameter '{clip(param.name)}' is a {param.type.value}, its expression gives a {checked}",
                    place,
                    _retype(param.name, checked),
                )
        for text in texts(param.value):
            self._text(text, view, place, own_name=own_name)
        for member in param.members or ():
            self._param(member, view, place, own_name=own_name)

    def _text(
        self, text: object, view: View, place: Position | None, *, shell: bool = False, own_name: str | None = None
    ) -> None:
        if isinstance(text, str):
            if is_dynamic(text):
                self._dynamic(place)
            for name in names_in(text):
                if name != own_name:
                    self._name(name, view, place, shell=shell)

    def _dynamic(self, place: Position | None) -> None:
        message = "a file's name cannot depend on a parameter: files are read when the workflow is pushed"
        self.findings.error("file.dynamic", message, place, "name each file, and choose between steps with a condition")

    def _expression(
        self,
        expression: str,
        view: View,
        place: Position | None,
        wanted: tuple[str, ...],
        what: str = "the expression",
        *,
        names: bool = True,
        own_name: str | None = None,
    ) -> str | None:
        """The expression's kind, or None when it has errors. Without ``names``, names are not looked up."""
        try:
            found = check(expression, view.known_types)
        except ExpressionError as error:
            self.findings.error(error.code, f"{what}: {error}", place, error.hint)
            return None
        for problem in found.problems:
            self.findings.error(problem.code, f"{what}: {problem}", place, problem.hint)
        for code, message, hint in check_calls(found.calls, view.around, self.all_steps):
            self.findings.error(code, f"{what}: {message}", place, hint)
        if names:
            for name in found.names:
                if name not in found.optional and name != own_name:
                    self._name(name, view, place)
            for step, name in found.steps:
                self._step_reference(step, name or None, view, place)
            if own_name is not None and own_name in found.fields:
                message = f"{what} refers to itself: params.getFromStep('{clip(own_name)}')"
                self.findings.error("param.cycle", message, place, f"the one outside the step is {clip(own_name)}")
        if wanted and not found.problems and found.kind not in (*wanted, kinds.ANY):
            options = " or ".join(wanted)
            self.findings.error("expression.type", f"{what} must give a {options}, this gives a {found.kind}", place)
        return None if found.problems else found.kind

    def _name(self, name: str, view: View, place: Position | None, *, shell: bool = False) -> None:
        if name in view.types:
            return
        if name in STEP_FIELDS:
            message = f"only a step has '{name}', and this is evaluated when the run starts"
            self.findings.error("param.unknown", message, place, "use it in a step's own parameters and settings")
            return
        for step in _step_parts(name):
            if step in self.all_steps:
                self._step_reference(step, name[len(step) + 2 :], view, place)
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
        left = view.around.step if view.around.leaving else None
        if left is not None and not isinstance(left, NoOpStep):
            message = f"'{clip(name)}' is not defined here: the step '{clip(left.id)}' must publish it, or the run be given it"
        self.findings.warning("param.undefined", message, place, hint)

    def _step_reference(self, step: str, name: str | None, view: View, place: Position | None) -> None:
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
        elif name is not None:
            for code, message, hint in published(step, name, self.all_steps):
                self.findings.error(code, message, place, hint)


def _step_parts(name: str) -> Iterator[str]:
    """The steps that ``step__param`` may mean."""
    at = name.find("__")
    while at > 0:
        yield name[:at]
        at = name.find("__", at + 1)


def _asks_for(expression: str, name: str) -> bool:
    """Does it need the parameter, or only ask whether there is one?"""
    try:
        found = check(expression, {})
    except ExpressionError:
        return False
    return name in found.names and name not in found.optional


_STORABLE = (kinds.STRING, kinds.LONG, kinds.DOUBLE, kinds.BOOLEAN, *kinds.ARRAYS.values())
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
