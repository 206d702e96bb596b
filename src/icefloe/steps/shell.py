"""``type: Shell``: a script for bash, or for what its ``#!`` line says."""

from __future__ import annotations

import shutil
from typing import ClassVar

from icefloe.steps.contract import Command, Launch, Progress, StepContext, StepRuntime, builtin
from icefloe.steps.process import environment, write_private
from icefloe.workflow.step_types import ShellSettings, StepType


class ShellStep(StepRuntime):
    """Runs the script from a file in the attempt's folder, in the project's folder, with ``-e`` and ``pipefail``.

    A script that is a file of the version is read from the version, never from the disk of the worker.
    """

    type: ClassVar[StepType] = builtin("shell")
    blocking: ClassVar[bool] = False

    def start(self, context: StepContext) -> Progress:
        settings = context.parsed(self.type)
        assert isinstance(settings, ShellSettings)
        script = context.folder / "script.sh"
        text = context.script(settings.script)
        write_private(script, text.encode())
        if text.startswith("#!"):
            script.chmod(0o700)
            argv: tuple[str, ...] = (str(script),)
        else:
            bash = shutil.which("bash")
            argv = (bash, "-e", "-o", "pipefail", str(script)) if bash else ("/bin/sh", "-e", str(script))
        return Launch(Command(argv, environment(context, settings.env), context.config.root))
