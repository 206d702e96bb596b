"""``type: Python``: a script, or ``module:function``, in a process of its own."""

from __future__ import annotations

import json
import re
from typing import ClassVar

from icefloe.steps.contract import Command, Launch, Progress, StepContext, StepRuntime, builtin
from icefloe.steps.process import environment, python_program, write_private
from icefloe.workflow.step_types import PythonSettings, StepType

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

_CALL = """\
import importlib, inspect, json, os, sys
sys.path.insert(0, os.getcwd())
module, _, name = sys.argv[1].partition(":")
function = getattr(importlib.import_module(module), name)
with open(os.environ["ICEFLOE_PARAMS"]) as file:
    params = json.load(file)
wanted = inspect.signature(function).parameters
takes_all = any(p.kind is p.VAR_KEYWORD for p in wanted.values())
given = {key: value for key, value in params.items() if takes_all or key in wanted}
result = function(*map(json.loads, sys.argv[2:]), **given)
if isinstance(result, dict):
    with open(os.environ["ICEFLOE_OUTPUT"], "w") as file:
        json.dump(result, file)
"""


class PythonStep(StepRuntime):
    """A function gets the parameters it names as keyword arguments; a dict that it returns becomes the step's outputs."""

    type: ClassVar[StepType] = builtin("python")
    blocking: ClassVar[bool] = False

    def start(self, context: StepContext) -> Progress:
        settings = context.parsed(self.type)
        assert isinstance(settings, PythonSettings)
        script = context.folder / "script.py"
        if _FUNCTION.fullmatch(settings.script.strip()):
            write_private(script, _CALL.encode())
            arguments = (settings.script.strip(), *(json.dumps(item) for item in settings.args))
        else:
            write_private(script, context.script(settings.script).encode())
            arguments = tuple(str(item) for item in settings.args)
        argv = (python_program(), str(script), *arguments)
        return Launch(Command(argv, environment(context, settings.env), context.config.root))
