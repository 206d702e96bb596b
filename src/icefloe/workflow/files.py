"""The files a definition refers to.

``$FILE{path}`` and ``$S3{bucket/key}`` in any text, a ``script:`` that names a file, and the ``files:`` of a step. They are
read once, at push, through a reader that is passed in, and stored with the version by the hash of their contents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from icefloe.errors import IcefloeError
from icefloe.workflow.interpolation import files_in
from icefloe.workflow.model import Param, StepBase, TypedStep, Workflow, walk
from icefloe.workflow.places import Places
from icefloe.workflow.problems import Position
from icefloe.workflow.resolution import texts
from icefloe.workflow.step_types import StepTypes

SCRIPT_SUFFIXES = (".sql", ".py", ".sh", ".bash", ".jar", ".r", ".scala")
MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_TOTAL_BYTES = 50 * 1024 * 1024


class FileProblem(IcefloeError):  # noqa: N818 - raised by readers, turned into a finding with its place
    """A reader cannot give a file; the message says why."""

    code = "file.unreadable"


class FileReader(Protocol):
    """Gives the bytes of a file. ``key`` is ``file:relative/path`` or ``s3:bucket/key``. Raises :class:`FileProblem`."""

    def read(self, key: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """A reader over contents at hand."""

    contents: Mapping[str, bytes]

    def read(self, key: str) -> bytes:
        if key not in self.contents:
            raise FileProblem(f"there is no file '{key}'")
        return self.contents[key]


@dataclass(frozen=True, slots=True)
class Reference:
    """One mention of a file in a definition."""

    key: str
    position: Position | None


def script_key(script: object) -> str | None:
    """The file that a ``script:`` setting names; None when it is the text itself (or ``module:function``)."""
    if not isinstance(script, str):
        return None
    words = script.strip()
    named = re.fullmatch(r"[^\s;]{1,1000}", words) and words.lower().endswith(SCRIPT_SUFFIXES)
    if not named or "$" in words:
        return None
    return f"s3:{words[5:]}" if words.startswith("s3://") else f"file:{words}"


def is_dynamic(text: str) -> bool:
    """Does a text name a file by way of a parameter? Such a file cannot be read at push, so no run could use it."""
    return re.search(r"(?<!\$)\$(?:FILE|S3)\{[^{}]*\$\{", text) is not None


def is_dynamic_script(script: object) -> bool:
    """Is a ``script:`` the name of a file with a parameter in it?"""
    words = script.strip() if isinstance(script, str) else ""
    return bool(re.fullmatch(r"[^\s;]{1,1000}", words)) and words.lower().endswith(SCRIPT_SUFFIXES) and "${" in words


def references(workflow: Workflow, types: StepTypes, places: Places) -> Iterator[Reference]:
    """Every mention of a file, in order."""
    for param in workflow.params:
        yield from _in_param(param, places.param(None, param.name))
    for trigger in workflow.triggers:
        for param in trigger.params:
            yield from _in_param(param, places.workflow)
    for _, step in walk(workflow):
        yield from _in_step(step, types, places)


def _in_step(step: StepBase, types: StepTypes, places: Places) -> Iterator[Reference]:
    for param in step.params:
        yield from _in_param(param, places.param(step.id, param.name))
    if not isinstance(step, TypedStep):
        return
    for path, text in settings_texts(step.settings):
        for key in files_in(text):
            yield Reference(key, places.setting(step.id, path))
    step_type = types.find(step.type)
    script = script_key(step.settings.get(step_type.script)) if step_type and step_type.script else None
    if step_type is not None and step_type.script is not None and script is not None:
        yield Reference(script, places.setting(step.id, (step_type.script,)))
    more = step.settings.get("files", ())
    for index, name in enumerate([more] if isinstance(more, str) else more if isinstance(more, list) else ()):
        if isinstance(name, str) and "$" not in name:
            yield Reference(f"file:{name.strip()}", places.setting(step.id, ("files", str(index))))


def _in_param(param: Param, position: Position | None) -> Iterator[Reference]:
    for text in texts(param.value):
        for key in files_in(text):
            yield Reference(key, position)
    for member in param.members or ():
        yield from _in_param(member, position)


def settings_texts(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every text in some settings, with its path."""
    if isinstance(data, str):
        yield path, data
    elif isinstance(data, Mapping):
        for key, item in data.items():
            yield from settings_texts(item, (*path, str(key)))
    elif isinstance(data, list | tuple):
        for index, item in enumerate(data):
            yield from settings_texts(item, (*path, str(index)))
