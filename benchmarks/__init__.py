"""Benchmarks. Each is a module, ``python -m benchmarks.NAME``, that prints its figures as one JSON line, last."""
