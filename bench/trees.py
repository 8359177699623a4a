"""Two commits side by side: this tree and another one, each with its own code and data, in this environment.

`bench.compare` and `bench.instructions` measure the same paths on them.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.tools.processes import SERVER_CORE, free_port, pinned, serve_command

HERE = Path(__file__).parent.parent
DEVICES = 10_000
SITES = 64
NO_LIMITS = (
    *("--poll-rate-per-second", "100000", "--poll-burst", "1000000"),
    *("--events-poll-rate-per-second", "100000", "--events-poll-burst", "1000000"),
    *("--command-rate-limits", "default=1000000/60", "--log-level", "error"),
)


class NotInTree(Exception):
    """The code of a commit does not have a path."""


class Tree(NamedTuple):
    """The code of a commit, and a folder for its data."""

    name: str
    path: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        folders = (self.path / "src", self.path / "client" / "src", self.path)
        return {"PYTHONPATH": ":".join(map(str, folders)), "ENABLE_COMMAND_SIGNATURE": "true"}

    @property
    def data_package(self) -> str:
        """The package that prepares data. Older commits have its modules in `bench` itself."""
        return "bench.data" if (self.path / "bench" / "data").exists() else "bench"

    def new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder))

    def prepare(self, code: str) -> tuple[Path, Path]:
        """Prepare a data folder with the code of this tree, which prints tokens; returns folder and token file."""
        folder = self.new_folder()
        data, tokens = folder / "data", folder / "tokens"
        modules = f"from {self.data_package} import device_data, edge_data, event_data"
        script = f"import asyncio\nfrom pathlib import Path\n{modules}\npath = Path({str(data)!r})\n{code}"
        done = subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, **self.environment}, cwd=self.path, capture_output=True
        )
        if done.returncode:
            raise NotInTree(f"{self.name} cannot prepare its data:\n{done.stderr.decode()}")
        tokens.write_bytes(done.stdout)
        return data, tokens

    @contextmanager
    def serving(
        self, data: Path, before: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> Iterator[tuple[int, int]]:
        """Serve the data folder; yields process id and port. `before`: a command that runs the server."""
        port = free_port()
        command = [*before, sys.executable, *serve_command(data, port, *NO_LIMITS)]
        with pinned(
            SERVER_CORE, command, port, {**self.environment, **(environment or {})}, self.folder / "log"
        ) as pid:
            yield pid, port


class PollPath(NamedTuple):
    """A kind of idle poll: the code that prepares its data, and its requests."""

    code: str
    path: str
    script: str = "idle_poll.lua"
    new_connections: bool = False


DEVICE_CODE = f"""
data = device_data.prepare(path, {DEVICES})
print("\\n".join(asyncio.run(device_data.mint(data, range(1, {DEVICES} + 1)))))
"""
EDGE_CODE = """
print("\\n".join(edge_data.prepare(path, {sites}, {commands}).tokens))
"""
_EVENT_CODE = """
print("\\n".join(event_data.prepare(path, 1000, 0).tokens))
"""
_UPDATES = "/apiv1/devices/self/updates"
_COMMANDS, _EVENTS = EDGE_CODE.format(sites=1000, commands=0), _EVENT_CODE
IDLE_POLLS = {
    "idle-poll": PollPath(DEVICE_CODE, _UPDATES),
    "idle-poll-new-connections": PollPath(DEVICE_CODE, _UPDATES, new_connections=True),
    "command-idle-poll": PollPath(_COMMANDS, "/api/edge/v1/commands/poll"),
    "event-idle-poll": PollPath(_EVENTS, "/events", "event_poll.lua"),
}


def parse_arguments(program: str, available: Collection[str]) -> tuple[str, list[str]]:
    """The commit and the paths that the command line names; without names all paths."""
    if len(sys.argv) < 2:
        sys.exit(f"usage: python -m {program} REV [NAME …]")
    revision, *names = sys.argv[1:]
    unknown = [name for name in names if name not in available]
    if unknown:
        sys.exit(f"unknown paths: {', '.join(unknown)}; available: {', '.join(available)}")
    return revision, names or list(available)


@contextmanager
def two_trees(revision: str) -> Iterator[tuple[Tree, Tree]]:
    """The tree of the commit and this one."""
    with tempfile.TemporaryDirectory() as name, _worktree(revision, Path(name)) as path:
        old, new = Tree(revision[:12], path, Path(name) / "old"), Tree("this", HERE, Path(name) / "new")
        for tree in (old, new):
            tree.folder.mkdir()
        yield old, new


@contextmanager
def _worktree(revision: str, folder: Path) -> Iterator[Path]:
    """The files of a commit of this repository."""
    path = folder / "tree"
    git = ["git", "-C", str(HERE)]
    subprocess.run([*git, "worktree", "add", "--detach", "--quiet", str(path), revision], check=True)
    try:
        yield path
    finally:
        subprocess.run([*git, "worktree", "remove", "--force", str(path)], check=True)
