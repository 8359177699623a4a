"""Which server a command calls, and as whom. The first of these that is given decides:

    --server URL, --profile NAME          a server over HTTP
    --data DIR                            the server that runs on this folder, over its Unix socket
    RESTANTE_SERVER                       a server over HTTP
    RESTANTE_DATA                         the server that runs on this folder
    `restante login`                      the server of the last sign-in
    ./data                                the server that runs on this folder

Over HTTP the credential is RESTANTE_API_KEY or that of the profile. Over the Unix socket the operating system says who
the caller is. Nothing here opens a database or creates a folder.
"""

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from restante_client import BlockingOperatorClient
from restante_client.errors import RestanteError

from restante.cli.remote import profiles
from restante.cli.remote.profiles import Profile
from restante.core.errors import BadInput
from restante.server.data_folder import DataFolder, path_problem

SERVER_VARIABLE = "RESTANTE_SERVER"
KEY_VARIABLE = "RESTANTE_API_KEY"
DATA_VARIABLE = "RESTANTE_DATA"
DEFAULT_DATA = Path("data")
PROBE_SECONDS = 10.0


class NoServer(RestanteError):
    """No server can be reached this way; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """The flags that name a server."""

    server: str | None = None
    profile: str | None = None
    data: Path | None = None

    def connect(self, environ: Mapping[str, str] = os.environ) -> BlockingOperatorClient:
        """A client of the server; raises NoServer if there is none."""
        given = [flag for flag, value in self._flags().items() if value is not None]
        if len(given) > 1:
            raise BadInput(given[0], f"to be given without {given[1]}")
        if self.server is not None:
            return _over_http(self.server, environ)
        if self.profile is not None:
            return _signed_in(self.profile, profiles.find(self.profile))
        if self.data is not None:
            return _local(self.data, environ)
        if url := environ.get(SERVER_VARIABLE):
            return _over_http(url, environ)
        if folder := environ.get(DATA_VARIABLE):
            return _local(Path(folder), environ)
        found = profiles.load()
        if found.current is not None and found.current in found.profiles:
            return _signed_in(found.current, found.profiles[found.current])
        return _local(DEFAULT_DATA, environ)

    def _flags(self) -> dict[str, object]:
        return {"--server": self.server, "--profile": self.profile, "--data": self.data}


def client_of(url: str, token: str | None, name: str = "--server") -> BlockingOperatorClient:
    """A client of the server at this URL; `name` is how the person has given it."""
    try:
        return BlockingOperatorClient(url, token)
    except ValueError:
        raise BadInput(name, f"http://… or https://…, not {url!r}") from None


def _over_http(url: str, environ: Mapping[str, str]) -> BlockingOperatorClient:
    token = environ.get(KEY_VARIABLE)
    if token is None:
        token = next((each.token for each in profiles.load().profiles.values() if each.url == url), None)
    if token is None:
        raise NoServer(f"no credential for {url}: sign in with `restante login {url}`, or set {KEY_VARIABLE}")
    return client_of(url, token)


def _signed_in(name: str, profile: Profile) -> BlockingOperatorClient:
    if profile.expires_at is not None and profile.expires_at <= time.time():
        raise NoServer(f"the sign-in of profile {name} has ended: sign in again with `restante login {profile.url}`")
    return client_of(profile.url, profile.token)


def _local(folder: Path, environ: Mapping[str, str]) -> BlockingOperatorClient:
    data = DataFolder(folder)
    problem = path_problem(data.socket_path)
    if problem is not None:
        raise NoServer(f"{problem}; or name the server with --server")
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(PROBE_SECONDS)
            probe.connect(str(data.socket_path))
    except PermissionError:
        raise NoServer(f"{data.socket_path} is for its owner only: sign in with `restante login URL`") from None
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        raise NoServer(_how_to_start(data)) from None
    token = environ.get(KEY_VARIABLE)
    return LocalClient(data, token)


def _how_to_start(data: DataFolder) -> str:
    if data.running_pid() is not None:
        return f"the server that runs on {data.path} has no socket there yet: try again in a moment"
    missing = "there is no data folder" if not data.path.exists() else "no server runs on"
    return (
        f"{missing} {data.path}: start a server with `restante serve --data {data.path}`, name another folder with "
        "--data, name a server with --server, or sign in to one with `restante login URL`"
    )


class LocalClient(BlockingOperatorClient):
    """A client over the Unix socket of the data folder."""

    def __init__(self, data: DataFolder, token: str | None) -> None:
        import httpx

        super().__init__("http://localhost", token, http={"transport": httpx.HTTPTransport(uds=str(data.socket_path))})
        self.data = data
