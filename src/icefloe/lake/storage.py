"""Bytes in, bytes out: what the lake needs of a PyIceberg FileIO, with errors of our own.

FileIO has no listing; both of PyIceberg's implementations stand on a file system that has, and :func:`folders` asks that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.io import FileIO

from icefloe import suppressed
from icefloe.lake.errors import MetadataMissingError, StorageError


def read(io: FileIO, location: str) -> bytes:
    """The whole file. A missing one is :class:`MetadataMissingError`: the lake only ever opens metadata."""
    try:
        with io.new_input(location).open(seekable=False) as stream:
            return stream.read()
    except FileNotFoundError as error:
        raise MetadataMissingError(
            "this metadata file is named by the table but is not there",
            where=location,
            hint="it may have been removed by expire_snapshots or remove_orphan_files at this moment: try again",
        ) from error
    except (OSError, ValueError) as error:
        # ValueError: a scheme that this FileIO does not know.
        raise StorageError(f"cannot be read: {error}", where=location) from error


def write(io: FileIO, location: str, data: bytes) -> None:
    """Write a new file; an existing one is never overwritten, and half a file (a full disk) does not stay."""
    with _writing(location):
        stream = io.new_output(location).create(overwrite=False)
        try:
            with stream:
                stream.write(data)
        except OSError:
            with suppressed.errors("storage.delete_partial", OSError, where=location):
                io.delete(location)
            raise


def delete(io: FileIO, locations: Iterable[str]) -> None:
    """Delete what is there; a file that is already gone is fine."""
    for location in locations:
        try:
            io.delete(location)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StorageError(f"cannot be deleted: {error}", where=location) from error


def files(io: FileIO, folder: str) -> list[str]:
    """All files below a folder, as full locations."""
    return [entry for entry, is_file in _walk(io, folder, recursive=True) if is_file]


def folders(io: FileIO, folder: str) -> list[str]:
    """Names of the folders directly below a folder; an object store's folder is a shared prefix."""
    return sorted({entry.rstrip("/").rsplit("/", 1)[-1] for entry, is_file in _walk(io, folder) if not is_file})


def delete_folder(io: FileIO, folder: str) -> None:
    """Delete a folder and all below it."""
    with _writing(folder):
        fs, path, is_arrow = _file_system(io, folder)
        if is_arrow:
            from pyarrow.fs import FileType

            if fs.get_file_info(path).type != FileType.NotFound:
                fs.delete_dir(path)
        elif fs.exists(path):
            fs.rm(path, recursive=True)


def inside(location: str, folder: str) -> bool:
    """Whether a location lies in a folder, whichever way the two are spelt."""
    return (normal(location) + "/").startswith(normal(folder).rstrip("/") + "/")


def normal(location: str) -> str:
    """One spelling per file: Spark writes ``file:/x`` where PyIceberg writes ``file:///x``; s3a and s3n are s3."""
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme or scheme == "file":
        path = rest if colon and scheme == "file" else location
        return re.sub("/+", "/", path).rstrip("/") or "/"
    scheme = "s3" if scheme in ("s3a", "s3n") else scheme
    return f"{scheme}:{rest}".rstrip("/")


@contextmanager
def _writing(location: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise StorageError(
            f"the storage refused: {error}", where=location, hint="check rights and free space of that folder"
        ) from error


def _walk(io: FileIO, folder: str, *, recursive: bool = False) -> Iterator[tuple[str, bool]]:
    fs, path, is_arrow = _file_system(io, folder)
    # What the file system calls the folder, and what the catalog calls it, differ by a prefix that is put back.
    prefix = folder.rstrip("/")
    if is_arrow:
        from pyarrow.fs import FileSelector, FileType

        for info in fs.get_file_info(FileSelector(path, recursive=recursive, allow_not_found=True)):
            yield prefix + info.path[len(path.rstrip("/")) :], info.type == FileType.File
        return
    if not fs.exists(path):
        return
    stripped = fs._strip_protocol(path).rstrip("/")
    if recursive:
        for entry in fs.find(path):
            yield prefix + entry[len(stripped) :], True
    else:
        for info in fs.ls(path, detail=True):
            name = info["name"].rstrip("/")
            if name != stripped:
                yield prefix + name[len(stripped) :], info["type"] == "file"


def _file_system(io: FileIO, location: str) -> tuple[Any, str, bool]:
    """The file system behind a FileIO, the location as that file system names it, and whether it is pyarrow's."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    if isinstance(io, PyArrowFileIO):
        scheme, netloc, path = PyArrowFileIO.parse_location(location, io.properties)
        return io.fs_by_scheme(scheme, netloc), path, True
    get_fs = getattr(io, "get_fs", None)
    if get_fs is None:
        raise StorageError(f"{type(io).__name__} cannot list folders", where=location)
    parts = urlsplit(location)
    return get_fs(parts.scheme or "file", parts.hostname), location, False
