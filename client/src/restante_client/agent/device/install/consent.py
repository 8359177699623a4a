"""What the owner of the device allows: paths, commands, users, environment. Everything else is refused.

The checks are about texts, and need no file to exist. `files` opens the allowed folders in a way that symbolic links
cannot lead out of them.
"""

from __future__ import annotations

import fnmatch
import hashlib
import posixpath
import shlex
from dataclasses import dataclass
from typing import Optional, Union

from restante_client.agent.device.config import Allow
from restante_client.device.models import InstallItem

Argv = list[str]
Command = Union[str, Argv]


class Refused(Exception):
    """The owner does not allow it. The text names the field of the configuration."""


@dataclass(frozen=True)
class AllowedPath:
    """A path split where trust ends: `root` is from the configuration, `parts` come from the server."""

    root: str
    parts: tuple[str, ...]

    @property
    def path(self) -> str:
        return posixpath.join(self.root, *self.parts)


def allowed_path(path: str, roots: list[str], field: str) -> AllowedPath:
    """Where the path lies below an allowed folder, or `Refused`."""
    parts = path.split("/")
    if not path.startswith("/") or ".." in parts or "\x00" in path:
        raise Refused(f"{path!r} is not an absolute path without ..")
    names = [part for part in parts if part not in ("", ".")]
    if not names:
        raise Refused(f"{path!r} is not a file")
    for root in roots:
        root_names = [part for part in root.split("/") if part not in ("", ".")]
        if names == root_names:
            return AllowedPath("/" + "/".join(names[:-1]), (names[-1],))
        if names[: len(root_names)] == root_names:
            return AllowedPath("/" + "/".join(root_names), tuple(names[len(root_names) :]))
    raise Refused(f"{path} is not below a path in {field}")


class Consent:
    def __init__(self, allow: Allow) -> None:
        self._allow = allow

    def target(self, path: str) -> AllowedPath:
        return allowed_path(path, self._allow.paths, "allow.paths")

    def source(self, path: str) -> AllowedPath:
        return allowed_path(path, self._allow.sources, "allow.sources")

    def check_command(self, command: Command) -> None:
        if isinstance(command, str):
            if command not in self._allow.shell and "*" not in self._allow.shell:
                raise Refused(f"the shell command {command!r} is not in allow.shell")
        elif not any(_matches(command, allowed) for allowed in self._allow.commands):
            raise Refused(f"the command {shlex.join(command)!r} is not in allow.commands")

    def check_item(self, item: InstallItem) -> None:
        """Check what an item names, apart from its sources."""
        for path in item.targets:
            self.target(path)
        for command in commands_of(item):
            self.check_command(command)
        for name in item.env:
            if not any(fnmatch.fnmatchcase(name, allowed) for allowed in self._allow.environment):
                raise Refused(f"the variable {name!r} is not in allow.environment")
        if item.run_as and item.run_as not in self._allow.users:
            raise Refused(f"the user {item.run_as!r} is not in allow.users")

    def allows_script(self, script: str) -> bool:
        return script_hash(script) in self._allow.after_update_scripts


def script_hash(script: str) -> str:
    return hashlib.sha256(script.encode()).hexdigest()


def command_of(item: InstallItem) -> Optional[Command]:
    """The command of an item: `cmd_argv` first. A list is executed directly, a text by the shell."""
    return item.cmd_argv or item.cmd or None


def verify_command(item: InstallItem) -> Optional[Command]:
    found = item.verify.get("cmd_argv") or item.verify.get("cmd")
    if isinstance(found, str) or (isinstance(found, list) and all(isinstance(word, str) for word in found)):
        return found or None
    return None


def commands_of(item: InstallItem) -> list[Command]:
    own = command_of(item) if item.type == "exec" else None
    return [command for command in (own, verify_command(item)) if command]


def _matches(argv: Argv, allowed: str) -> bool:
    try:
        words = shlex.split(allowed)
    except ValueError:
        return False
    if words and words[-1] == "**":
        words = words[:-1]
        argv = argv[: len(words)] if len(argv) >= max(1, len(words)) else []
        if not words:
            return True
    return len(words) == len(argv) > 0 and all(fnmatch.fnmatchcase(word, pattern) for word, pattern in zip(argv, words))
