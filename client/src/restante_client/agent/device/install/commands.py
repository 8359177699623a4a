"""Running a command: without a shell if it is a list, with a time limit, optionally as another user.

The whole process group of a command that takes too long is killed. A command that leaves a process behind does not
hold the agent: only the command itself is waited for. The output goes to a file, and its end is kept.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from restante_client.agent.device.install.consent import Command

OUTPUT_BYTES_MAX = 2000


@dataclass(frozen=True)
class CommandResult:
    """`exit_code` is None if the command was not started or was killed for its time."""

    exit_code: Optional[int]
    error: str = ""
    output: str = ""

    @property
    def is_ok(self) -> bool:
        return self.exit_code == 0


def run(
    command: Command,
    *,
    timeout_seconds: float,
    search_path: str,
    environment: Mapping[str, str] | None = None,
    run_as: Optional[str] = None,
    stdin: bytes = b"",
    folder: str = "/",
) -> CommandResult:
    """Run a command to its end, and return how it ended. Never raises for what the command does."""
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    # Found by the agent's own search path, whatever the environment of the item says.
    program = shutil.which(argv[0], path=search_path)
    if program is None:
        return CommandResult(None, f"{argv[0]}: no such program")
    try:
        user = _user_options(run_as)
    except LookupError as error:
        return CommandResult(None, str(error))
    variables = {"PATH": search_path, "LANG": "C.UTF-8", **user.pop("environment"), **(environment or {})}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        try:
            process = subprocess.Popen(  # noqa: S603
                argv,
                executable=program,
                stdin=given,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
                cwd=folder,
                start_new_session=True,
                **user,
            )
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            return CommandResult(None, f"{argv[0]} cannot be started: {error}")
        exit_code = _wait(process, timeout_seconds)
        end = _end_of(output)
    if exit_code is None:
        return CommandResult(None, f"no end within {timeout_seconds:g} s", end)
    return CommandResult(exit_code, _described(exit_code), end)


def _described(exit_code: int) -> str:
    if exit_code == 0:
        return ""
    return f"exit code {exit_code}" if exit_code > 0 else f"killed by signal {-exit_code}"


def _wait(process: subprocess.Popen[bytes], timeout_seconds: float) -> Optional[int]:
    try:
        return process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _end_of(output: Any) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - OUTPUT_BYTES_MAX))
    text: str = output.read().decode("utf-8", "replace")
    return text.strip()


def _user_options(run_as: Optional[str]) -> dict[str, Any]:
    if not run_as:
        return {"environment": {name: os.environ[name] for name in ("HOME", "USER") if name in os.environ}}
    try:
        found = pwd.getpwnam(run_as)
    except KeyError:
        raise LookupError(f"run_as: no user {run_as!r}") from None
    options: dict[str, Any] = {"environment": {"HOME": found.pw_dir, "USER": found.pw_name}}
    if found.pw_uid != os.geteuid():
        groups = os.getgrouplist(found.pw_name, found.pw_gid)
        options.update(user=found.pw_uid, group=found.pw_gid, extra_groups=groups)
    return options
