"""The machine that runs the tests may be busy: how long one example takes says nothing here."""

from hypothesis import settings

settings.register_profile("workflow", deadline=None)
settings.load_profile("workflow")
