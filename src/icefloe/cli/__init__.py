"""The command line. One module per area; each has ``register(app)`` and is listed in ``main.py``."""
