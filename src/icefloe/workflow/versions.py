"""Immutable versions: a workflow together with every file it refers to.

The digest covers the model and the contents of the files, so pushing the same again makes no new version, and a run
that starts from a version reads nothing that was not pushed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from icefloe.workflow import serialization
from icefloe.workflow.files import MAX_FILE_BYTES, MAX_TOTAL_BYTES, FileProblem, FileReader, references
from icefloe.workflow.interpolation import secrets_in
from icefloe.workflow.loading import Loaded
from icefloe.workflow.model import Json, Workflow
from icefloe.workflow.problems import Findings
from icefloe.workflow.step_types import BUILTIN, StepTypes
from icefloe.workflow.values import clip


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a version: how the definition calls it, and the sha256 of its contents."""

    key: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class WorkflowVersion:
    """What is stored at push. The contents of the files are stored apart, by digest."""

    workflow: Workflow
    files: tuple[StoredFile, ...] = ()

    def to_dict(self) -> dict[str, Json]:
        listed = [{"key": file.key, "digest": file.digest, "size": file.size} for file in self.files]
        return {"workflow": self.workflow.to_dict(), "files": listed}

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> WorkflowVersion:
        try:
            files = tuple(StoredFile(item["key"], item["digest"], item["size"]) for item in data["files"])
            workflow = data["workflow"]
        except (KeyError, TypeError) as error:
            raise serialization.MalformedModelError(f"a stored version cannot be read: {error}") from error
        return cls(Workflow.from_dict(workflow), files)

    def digest(self) -> str:
        """sha256 over the model and the files' digests."""
        files = {file.key: file.digest for file in self.files}
        return serialization.digest({"workflow": self.workflow.to_dict(), "files": files})

    def file_texts(self, content: Callable[[str], bytes]) -> dict[str, str]:
        """The files as texts by key, for a :class:`Scope`; ``content`` gives the bytes of a digest. Files that are no
        text (jars) are left out."""
        found = {}
        for file in self.files:
            try:
                found[file.key] = content(file.digest).decode("utf-8")
            except UnicodeDecodeError:
                continue
        return found

    def secrets(self, content: Callable[[str], bytes] | None = None) -> frozenset[str]:
        """The secrets that the definition itself, or a file of it, refers to. Only these may be revealed to its steps:
        a value that merely looks like a reference (it came out of data) may not."""
        texts = self.file_texts(content) if content is not None else {}
        return frozenset((*secrets_in(self.workflow.to_dict()), *secrets_in(list(texts.values()))))


@dataclass(frozen=True, slots=True)
class Packed:
    """A version ready to be stored, with the contents of its files by digest."""

    version: WorkflowVersion
    contents: Mapping[str, bytes]


def pack(loaded: Loaded, reader: FileReader, types: StepTypes = BUILTIN) -> Packed:
    """Reads every file the definition refers to. Raises :class:`DefinitionError` naming all that cannot be had."""
    findings = Findings()
    files: dict[str, StoredFile] = {}
    contents: dict[str, bytes] = {}
    total = 0
    tried: set[str] = set()
    for reference in references(loaded.workflow, types, loaded.places):
        if reference.key in tried:
            continue
        tried.add(reference.key)
        try:
            data = reader.read(reference.key)
        except FileProblem as error:
            findings.error("file.unreadable", error.message, reference.position, error.hint)
            continue
        total += len(data)
        if len(data) > MAX_FILE_BYTES or total > MAX_TOTAL_BYTES:
            limit = f"{MAX_FILE_BYTES:,} bytes a file, {MAX_TOTAL_BYTES:,} together"
            findings.error("file.too-large", f"'{clip(reference.key)}' is too large: {limit}", reference.position)
            break
        digest = hashlib.sha256(data).hexdigest()
        files[reference.key] = StoredFile(reference.key, digest, len(data))
        contents[digest] = data
    findings.raise_errors()
    return Packed(WorkflowVersion(loaded.workflow, tuple(files[key] for key in sorted(files))), contents)
