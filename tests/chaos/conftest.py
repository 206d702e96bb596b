"""Both state databases, as for the contract suite."""

from tests.contract.conftest import postgres, project, state_url  # noqa: F401
