"""The Unix socket in the data folder: a user of the server's own machine is the local administrator there.

    restante … (owner of the data folder, or root) ──▶ restante.sock, mode 0600 ──▶ the application of the node

The kernel lets only the owner of the socket and root connect, and says who connected (SO_PEERCRED). No password and no
key is involved. Requests carry the name of the user; what the user may do is decided in `web/access.py`. A connection
here is never refused, so that an administrator on this machine reaches a full server.

Invariant: at most one process listens on the path. A socket that a killed process has left behind is replaced.
"""

import asyncio
import os
import pwd
import socket
import struct
from contextlib import suppress
from pathlib import Path

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from restante.server.data_folder import path_problem
from restante.server.http.connection_limits import Verdict
from restante.server.http.fast_lane import FastLaneProtocol, FastLaneState
from restante.web.access import LOCAL_USER

log = structlog.get_logger()

OWNER_ONLY_UMASK = 0o177
BACKLOG = 64
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class LocalSocket:
    """A listening socket at the path, until `close`."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._path = path
        try:
            path.unlink(missing_ok=True)
            # The socket never exists with another mode, not even for a moment.
            before = os.umask(OWNER_ONLY_UMASK)
            try:
                self.socket.bind(str(path))
            finally:
                os.umask(before)
            self.socket.listen(BACKLOG)
            self.socket.setblocking(False)
            self._inode = path.stat().st_ino
        except OSError:
            self.socket.close()
            raise

    def close(self) -> None:
        """Close the socket, and remove it from the folder unless another one has replaced it."""
        self.socket.close()
        with suppress(OSError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()


def open_local_socket(path: Path) -> LocalSocket | None:
    """A socket at the path. None, with a line in the log, if there cannot be one: the server runs without."""
    problem = path_problem(path)
    if problem is None and _is_served(path):
        problem = f"another server listens on {path}"
    if problem is None:
        try:
            return LocalSocket(path)
        except OSError as error:
            problem = str(error)
    log.warning("no local socket: the command line of this machine must sign in", reason=problem)
    return None


def peer_user(descriptor: int) -> str | None:
    """The name of the user at the other end; None unless that is the owner of this process, or root."""
    with socket.socket(fileno=os.dup(descriptor)) as sock:
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user_id = _CREDENTIALS.unpack(raw)[1]
    if user_id not in (0, os.geteuid()):
        return None
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)


def _is_served(path: Path) -> bool:
    """Whether a process accepts connections on the socket at this path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError as error:
            log.warning("cannot tell whether another server listens", path=str(path), error=str(error))
        return True


def local_lane_class(shared: FastLaneState) -> type[HttpToolsProtocol]:
    """Make the protocol class for the Unix socket."""
    return type("LocalLane", (_LocalProtocol,), {"shared": shared, "response_format": shared.response_format})


class _LocalProtocol(FastLaneProtocol):
    _user: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._user = peer_user(transport.get_extra_info("socket").fileno())
        super().connection_made(transport)

    def enter(self, _address: str, _descriptor: int) -> Verdict:
        return Verdict.admitted

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._user is not None:
            self.scope[LOCAL_USER] = self._user  # type: ignore[literal-required]
