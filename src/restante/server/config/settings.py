"""The declarations of all settings: name with the unit at its end, type, meaning, default.

Command-line flags, environment variables, TOML keys, the checks at the start and docs/settings.md are generated from
these declarations. To add a setting, add a field to the class of its protocol or of the
server. `settings_sources.py` decides where a value comes from.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_type_hints

from restante.server.config.commands_settings import CommandsSettings
from restante.server.config.events_settings import EventsSettings
from restante.server.config.server_settings import ServerSettings
from restante.server.config.setting_types import SettingType
from restante.server.config.updates_settings import UpdatesSettings

ENVIRONMENT_PREFIX = "RESTANTE_"
# The contract of edge commands names these environment variables; they are also read without the prefix.
CONTRACT_SETTINGS = frozenset(
    [
        "enable_command_signature",
        "command_lease_duration_sec",
        "max_command_retries",
        "default_retry_backoff_sec",
        "require_ack_nonce",
        "redis_url",
    ]
)


@dataclass(frozen=True, slots=True)
class Declaration:
    """One setting: its name, type, default and meaning, independent of its value."""

    name: str
    default: Any
    type: SettingType
    meaning: str
    is_secret: bool

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.upper()

    @property
    def has_secret(self) -> bool:
        """Whether a value may contain a secret, such as the password in a URL."""
        return self.is_secret or getattr(self.type, "has_secret", False)

    @property
    def contract_variable(self) -> str | None:
        return self.name.upper() if self.name in CONTRACT_SETTINGS else None

    @property
    def flag(self) -> str | None:
        """The command-line flag. A secret has none, because every user of the machine can see command lines."""
        return None if self.is_secret else "--" + self.name.replace("_", "-")

    def shown(self, value: object) -> str:
        """The value as text, without secrets; empty if it is not set."""
        if value is None or value == ():
            return ""
        if self.is_secret:
            return "(hidden)"
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, float):
            return f"{value:g}"
        return str(value)


@dataclass(frozen=True, kw_only=True)
class Settings(EventsSettings, CommandsSettings, UpdatesSettings, ServerSettings):
    """All settings, in the order of their classes from last to first: the server's own, then one protocol each."""


def declarations() -> Iterator[Declaration]:
    hints = get_type_hints(Settings, include_extras=True)
    for each in dataclasses.fields(Settings):
        setting_type, meaning = hints[each.name].__metadata__
        # A field without a repr is a secret.
        yield Declaration(each.name, each.default, setting_type, meaning, is_secret=not each.repr)


DECLARATIONS: dict[str, Declaration] = {declaration.name: declaration for declaration in declarations()}
