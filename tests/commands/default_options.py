"""The options of the commands component for the default settings, with some of them changed."""

from dataclasses import replace
from typing import Any

from restante.commands.component import CommandsOptions
from restante.server.config import options
from restante.server.config.settings import Settings


def commands_options(**changed: Any) -> CommandsOptions:
    """Several commands of a miner may be leased at once, unless a test says otherwise: most need only one miner."""
    return replace(options.commands_options(Settings(one_command_per_miner=False)), **changed)
