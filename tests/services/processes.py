"""Services that tests run against: real programs in folders of their own, on ports of their own, ended by their id.

Some refuse to run as root, or should not: started by root, they run under the account their package made.
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

PATIENCE_SECONDS = 60.0
PR_SET_PDEATHSIG = 1


def program(name: str) -> str:
    """Where a service's program is; some live where only root looks, or with their versions side by side."""
    beside = [str(folder) for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    found = shutil.which(name, path=":".join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", *beside]))
    assert found is not None, f"{name} is missing: run scripts/install-services"
    return found


@contextmanager
def folder_of(account: str) -> Iterator[Path]:
    """A short-named folder that belongs to whoever the service runs as: socket paths are bounded."""
    folder = Path(tempfile.mkdtemp(prefix=f"restante-{account}-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, account, account)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start(account: str, folder: Path, *command: str) -> "subprocess.Popen[bytes]":
    """Start a service, as its account if we are root. What it says is in the folder's log."""
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=_environment(),
            preexec_fn=_end_with_parent,
            **_as(account),
        )


def run(account: str, folder: Path, *command: str) -> None:
    """Run a preparing command to its end."""
    done = subprocess.run(command, capture_output=True, cwd=folder, env=_environment(), **_as(account))
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]


def wait_until(is_ready: Callable[[], bool], process: "subprocess.Popen[bytes]", folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_ready():
        said = (folder / "log").read_text(errors="replace")[-2000:]
        assert process.poll() is None, f"ended with {process.poll()}: {said}"
        assert time.monotonic() < deadline, f"not ready: {said}"
        time.sleep(0.02)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Nothing it has is worth an orderly end."""
    if process.poll() is None:
        process.kill()
    process.wait(PATIENCE_SECONDS)


def _as(account: str) -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    known = pwd.getpwnam(account)
    return {"user": known.pw_uid, "group": known.pw_gid, "extra_groups": []}


def _end_with_parent() -> None:
    """However the tests end, nothing they started stays behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "HOME": "/"}
