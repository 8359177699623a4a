"""Profiles: the servers that a person signed in to, in `restante/profiles.json` of the user's configuration folder.

The file holds credentials, so only its owner can read it. It is replaced as a whole: a reader sees the old or the new
one.
"""

import os
import stat
from pathlib import Path

import msgspec

from restante.core.errors import BadInput

OTHERS = 0o077


class Profile(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`expires_at`: when the token ends, in seconds since the epoch; None for an API key."""

    url: str
    token: str
    expires_at: int | None = None

    def __repr__(self) -> str:
        return f"Profile({self.url!r})"


class Profiles(msgspec.Struct, kw_only=True):
    current: str | None = None
    profiles: dict[str, Profile] = {}


def path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "restante" / "profiles.json"


def load() -> Profiles:
    file = path()
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        raw = file.read_bytes()
    except FileNotFoundError:
        return Profiles()
    if mode & OTHERS:
        raise PermissionError(f"{file} has mode {mode:04o}: others can read the credentials in it; chmod 600 {file}")
    try:
        return msgspec.json.decode(raw, type=Profiles)
    except msgspec.MsgspecError as error:
        raise OSError(f"{file} cannot be read ({error}): remove it, and sign in again") from None


def save(profiles: Profiles) -> None:
    file = path()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = file.with_suffix(f".{os.getpid()}.new")
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(profiles), indent=2))
        stream.flush()
        os.fsync(stream.fileno())
    written.replace(file)


def find(name: str) -> Profile:
    profiles = load().profiles
    if name not in profiles:
        known = ", ".join(sorted(profiles)) or "none"
        raise BadInput("--profile", f"a profile that `restante login` has made, not {name!r}; there are: {known}")
    return profiles[name]
