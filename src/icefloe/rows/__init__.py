"""Rows of data files, without Spark: found by their keys, and deleted by their positions.

A batch that changes a few groups looks through whole partitions for a few thousand keys. Here one column is decoded and compared at a
time, by Arrow, which takes a quarter of the processor time that a row takes through Spark. Only plain files are read: Parquet with field
ids and types as the table has them now, and nothing deleted from them but by deletion vectors. :class:`NotPlainError` says what is not,
and then Spark does it.

This is the only package that opens data files. Captures, and all else that lives on metadata alone, do not import it.
"""

from __future__ import annotations


class NotPlainError(Exception):
    """These files are not for this package; the reason is its text. Nothing was written."""
