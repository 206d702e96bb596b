"""PyIceberg's FileIO with a moment before each read in which a test may act."""

from __future__ import annotations

from collections.abc import Callable

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO


class FickleFileIO(PyArrowFileIO):
    """Named in a catalog's ``py-io-impl``; a test sets ``before_read`` on the class."""

    before_read: Callable[[str], None] = staticmethod(lambda location: None)

    def new_input(self, location: str) -> PyArrowFile:
        type(self).before_read(location)
        return super().new_input(location)
