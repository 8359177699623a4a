"""Start real services for tests. Each has its own folder and port and is ended by its process id.

Some services must not run as root: if the tests run as root, a service runs as the account of its package.
"""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 60.0
PR_SET_PDEATHSIG = 1


def program(name: str) -> str:
    """The path of a service's program. Some are outside the PATH, in /usr/sbin or in a folder for each version."""
    folders = Path("/usr/lib/postgresql").glob("*/bin")
    versions = map(str, sorted(folders, key=lambda folder: float(folder.parts[4]), reverse=True))
    found = shutil.which(name, path=":".join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", *versions]))
    assert found is not None, f"{name} is missing: run scripts/install-services"
    return found


@contextmanager
def service_folder(account: str) -> Iterator[Path]:
    """A temporary folder that belongs to the service's account. Its name is short, because socket paths are limited."""
    folder = Path(tempfile.mkdtemp(prefix=f"restante-{account}-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, account, account)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start(
    account: str, folder: Path, *command: str, death_signal: signal.Signals = signal.SIGKILL
) -> "subprocess.Popen[bytes]":
    """Start a service, which gets the `death_signal` when the tests end in any way. Its output goes to the log file."""
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=_environment(),
            start_new_session=True,
            preexec_fn=lambda: _end_with_parent(death_signal),
            **account_options(account),
        )


def run(account: str, folder: Path, *command: str) -> None:
    """Run a command to its end, with the account and environment of the service."""
    done = subprocess.run(command, capture_output=True, cwd=folder, env=_environment(), **account_options(account))
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]


def wait_until(is_ready: Callable[[], bool], process: "subprocess.Popen[bytes]", folder: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not is_ready():
        log = (folder / "log").read_text(errors="replace")[-2000:]
        assert process.poll() is None, f"ended with {process.poll()}: {log}"
        assert time.monotonic() < deadline, f"not ready: {log}"
        time.sleep(0.02)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kill it: its data is not needed any more."""
    if process.poll() is None:
        process.kill()
    process.wait(TIMEOUT_SECONDS)


def account_options(account: str) -> dict[str, Any]:
    """Options of `subprocess` that run a process as the account, if we are root."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(account)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _end_with_parent(death_signal: signal.Signals) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "HOME": "/"}
