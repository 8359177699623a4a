"""Executables of the owner that handle signals of the owner's own types.

The executable has the name of the signal's type, gets the signal as JSON on stdin, and says by its exit code 0 that
the signal is handled. The type comes from the server, so it must be a plain file name; a file that others may write is
not executed.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Optional

import msgspec

from restante_client.agent.device.config import Handlers
from restante_client.agent.device.install import commands
from restante_client.device.models import Signal

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


class SignalHandlers:
    def __init__(self, config: Handlers, search_path: str) -> None:
        self._config = config
        self._search_path = search_path

    @property
    def attempts_max(self) -> int:
        return self._config.attempts_max

    def find(self, type: str) -> Optional[Path]:
        """The executable for a type of signals, or None."""
        path = self._path(type)
        return path if path is not None and problem_of(path) is None else None

    def problem(self, type: str) -> Optional[str]:
        """Why the file for a type of signals is not executed, or None if there is no such file."""
        path = self._path(type)
        return None if path is None else problem_of(path)

    def _path(self, type: str) -> Optional[Path]:
        if self._config.folder is None or _NAME.fullmatch(type) is None:
            return None
        path = Path(self._config.folder) / type
        return path if path.is_file() else None

    def run(self, path: Path, signal: Signal) -> commands.CommandResult:
        return commands.run(
            [str(path)],
            timeout_seconds=self._config.timeout_seconds,
            search_path=self._search_path,
            environment={"RESTANTE_SIGNAL_TYPE": signal.type},
            stdin=msgspec.json.encode(signal) + b"\n",
            folder=str(path.parent),
        )


def problem_of(path: Path) -> Optional[str]:
    """Why a file must not be executed, or None."""
    found = path.stat()
    if found.st_uid not in (0, os.geteuid()):
        return "it does not belong to root or to the agent's user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "other users may write it"
    if path.parent.stat().st_mode & stat.S_IWOTH:
        return "other users may write its folder"
    return None if os.access(path, os.X_OK) else "it is not executable"
