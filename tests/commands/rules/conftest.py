from tests.commands.reporting_fixture import client, fleet

__all__ = ["client", "fleet"]
