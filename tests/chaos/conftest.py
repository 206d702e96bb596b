"""Both state databases, as for the contract suite."""

from tests.contract.conftest import postgres, project, sqlite_template, state_url  # noqa: F401
