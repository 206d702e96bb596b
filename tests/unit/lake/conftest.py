"""Property tests here have no deadline per example: machines are shared, and a slow example is no wrong one."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("patient", deadline=None, print_blob=True, max_examples=40)
settings.load_profile("patient")
