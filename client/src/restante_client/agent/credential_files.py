"""Files that hold one credential each: a token, a secret, a key. They must be readable by their owner alone.

A configuration names files and holds no credentials, so it can be shown and copied. systemd's `LoadCredential=` gives
such files to a service.
"""

from __future__ import annotations

import stat
from pathlib import Path

from restante_client.agent.config import ConfigError
from restante_client.agent.program import Check


def read_credential(file: str, field: str) -> str:
    """The text of the file without white space around it. `ConfigError` names the field of the configuration."""
    try:
        text = Path(file).read_text("utf-8").strip()
    except OSError as error:
        raise ConfigError(f"{field}: {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{field}: {file}: not a text") from None
    if not text:
        raise ConfigError(f"{field}: {file}: the file is empty")
    return text


def credential_file_check(file: str, field: str) -> Check:
    """Whether the file is there, not empty, and not readable by others."""
    try:
        read_credential(file, field)
        mode = stat.S_IMODE(Path(file).stat().st_mode)
    except (ConfigError, OSError) as error:
        return Check(field, False, str(error), "create it with mode 0600")
    if mode & 0o077:
        return Check(field, False, f"{file} has mode {mode:04o}", f"chmod 0600 {file}")
    return Check(field, True, file)
