"""What every program of `restante-agent` has: a configuration, a state folder, and the commands run, status, doctor.

A program is a subclass of `Program` in its own module, and one line in the table of `main`. It may add commands
(`commands`), for example `enrol`. It does not parse arguments and does not format logs.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, ClassVar, Generic, TypeVar

from restante_client.agent.config import AgentConfig
from restante_client.agent.logs import Log
from restante_client.agent.stopping import Stopper
from restante_client.errors import StateError

C = TypeVar("C", bound=AgentConfig)

RUNNING_LOCK = "running.lock"


class ExitCode(enum.IntEnum):
    """How a program ends. The unit files and the pages name these numbers."""

    done = 0
    failed = 1  # a check of `doctor` failed, or work of `run --once` did
    wrong_usage = 2  # the arguments or the configuration are wrong; starting again does not help
    needs_person = 3  # not enrolled, or the session has ended or was revoked; starting again does not help
    unreachable = 4  # the server does not answer
    wrong_state = 5  # the state folder cannot be used, or another process uses it


class ProgramError(Exception):
    """Ends the program with a message for the person who started it."""

    def __init__(self, message: str, code: ExitCode = ExitCode.failed) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Context(Generic[C]):
    """What a program works with."""

    config: C
    config_file: Path
    state: Path
    log: Log
    stopper: Stopper

    @property
    def has_state(self) -> bool:
        """Whether the state folder exists. `status` and `doctor` must not create it."""
        return self.state.is_dir()


@dataclass(frozen=True)
class Check:
    """One finding of `doctor`. `advice` says what to do about a failed check."""

    name: str
    is_ok: bool
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Command:
    """A command beside run, status and doctor. `run` gets the program and the arguments."""

    summary: str
    run: Callable[[Any, Namespace], ExitCode]
    add_arguments: Callable[[ArgumentParser], object] = id  # nothing to add


class Program(ABC, Generic[C]):
    """A program of `restante-agent`. The type of its configuration is `config_type`."""

    config_type: ClassVar[type[AgentConfig]]
    commands: ClassVar[Mapping[str, Command]] = {}

    def __init__(self, context: Context[C]) -> None:
        self.context = context
        self.config: C = context.config
        self.log = context.log

    @abstractmethod
    def run(self, *, is_once: bool) -> ExitCode:
        """Work until `context.stopper` stops the program. With `is_once`, do what is due now and return."""

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """The state on disk, without a request to the server, also while another process runs the program."""

    @abstractmethod
    def doctor(self) -> Iterator[Check]:
        """Check the configuration, the state folder, the server and the machine. Changes nothing."""

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Hold the state folder: one process at a time runs a program on it."""
        state = self.context.state
        try:
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(state / RUNNING_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StateError(f"the state folder {state} cannot be used: {error.strerror}") from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StateError(f"another process runs on the state folder {state}") from None
            yield
        finally:
            os.close(descriptor)

    def is_running(self) -> bool:
        """Whether a process runs on the state folder now."""
        try:
            descriptor = os.open(self.context.state / RUNNING_LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False


def checked(name: str, test: Callable[[], str], advice: str = "") -> Check:
    """A check that passes if the function returns; its result is shown. An exception is the finding of a failed one."""
    try:
        return Check(name, True, test())
    except Exception as error:
        return Check(name, False, f"{type(error).__name__}: {error}", advice)
