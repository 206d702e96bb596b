"""Consumers, captures and checkpoints: what a workflow has seen of its sources.

A micro-batch in this package: :func:`planning.plan` fixes the range, :func:`building.build` pins it and makes its change
tables, :mod:`published` turns it into parameters, and :func:`commits.commit` moves the checkpoints. :mod:`release` takes
pins and change tables away afterwards.
"""
