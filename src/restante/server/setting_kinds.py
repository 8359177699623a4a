"""What values a setting may have: each kind turns a text, or what a TOML file holds, into the value.

A kind knows nothing of where the value comes from and refuses it with a bare ValueError: whoever reads the
settings names the setting and its origin, and `expected` completes the sentence "expected …".
"""

import base64
import ipaddress
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from restante.identity.issuers import OutsideIssuer

MASTER_KEY_BYTES = 32
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")
_ADDRESS = re.compile(r"(?:\[(?P<bracketed>[^\[\]]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>[0-9]{1,5})")
_PATH = re.compile(r"(?:/[A-Za-z0-9_.~-]+)*/?", re.ASCII)


class Explained(ValueError):
    """A refusal with more to say than what was expected."""


class Kind(Protocol):
    @property
    def expected(self) -> str: ...
    def read(self, raw: object, /) -> Any:
        """The value, or ValueError."""


class Address(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Whole:
    at_least: int
    at_most: int

    @property
    def expected(self) -> str:
        return f"a whole number from {self.at_least} to {self.at_most}"

    def read(self, raw: object, /) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int | str):
            raise ValueError
        value = int(raw)
        if not self.at_least <= value <= self.at_most:
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Fraction:
    at_least: float
    at_most: float

    @property
    def expected(self) -> str:
        return f"a number from {self.at_least:g} to {self.at_most:g}"

    def read(self, raw: object, /) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            raise ValueError
        value = float(raw)
        if not math.isfinite(value) or not self.at_least <= value <= self.at_most:
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class YesOrNo:
    expected: str = "true or false"

    def read(self, raw: object, /) -> bool:
        if isinstance(raw, bool):
            return raw
        word = str(raw).lower()
        if word not in (*_TRUE, *_FALSE):
            raise ValueError
        return word in _TRUE


@dataclass(frozen=True, slots=True)
class OneOf:
    choices: tuple[str, ...]

    @property
    def expected(self) -> str:
        return "one of " + ", ".join(self.choices)

    def read(self, raw: object, /) -> str:
        if raw not in self.choices:
            raise ValueError
        return str(raw)


@dataclass(frozen=True, slots=True)
class Folder:
    expected: str = "the path of a folder"

    def read(self, raw: object, /) -> Path:
        if not isinstance(raw, str | Path) or str(raw) == "" or "\0" in str(raw):
            raise ValueError
        try:
            return Path(raw).expanduser()
        except RuntimeError as no_such_home:
            raise ValueError from no_such_home


@dataclass(frozen=True, slots=True)
class ListenAddress:
    expected: str = "HOST:PORT, for example 127.0.0.1:8080 or [::1]:8080"

    def read(self, raw: object, /) -> Address:
        found = _ADDRESS.fullmatch(raw) if isinstance(raw, str) else None
        if found is None or int(found["port"]) > 65535:
            raise ValueError
        if found["bracketed"]:
            ipaddress.IPv6Address(found["bracketed"])
        return Address(found["bracketed"] or found["host"], int(found["port"]))


@dataclass(frozen=True, slots=True)
class PublicUrl:
    expected: str = "https://host, https://host:port or the same with http"

    def read(self, raw: object, /) -> str:
        if not isinstance(raw, str) or not raw.isprintable() or " " in raw:
            raise ValueError
        url = urlsplit(raw.removesuffix("/"))
        bare = not (url.path or url.query or url.fragment or "@" in url.netloc)
        # `.port` raises ValueError itself where it is not a port.
        if url.scheme not in ("http", "https") or not url.hostname or not bare or url.port == 0:
            raise ValueError
        return f"{url.scheme}://{url.netloc}"


@dataclass(frozen=True, slots=True)
class BasePath:
    expected: str = "a path such as /open-banking/v4.0, or nothing"

    def read(self, raw: object, /) -> str:
        """Without a slash at its end: what is served under it begins with one."""
        if not isinstance(raw, str) or not _PATH.fullmatch(raw):
            raise ValueError
        return raw.rstrip("/")


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """Where a database is, with what it takes to be let in: shown to nobody but the driver."""

    url: str = field(repr=False)

    def __str__(self) -> str:
        """The address for human eyes."""
        url = urlsplit(self.url)
        login, at, place = url.netloc.rpartition("@")
        user = login.partition(":")[0]
        told = f"{url.scheme}://{user}{':…' if ':' in login else ''}{at}{place}{url.path}"
        return f"{told}?…" if url.query else told


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    expected: str = "postgresql://USER:PASSWORD@HOST/DATABASE"
    bears_secret: bool = True

    def read(self, raw: object, /) -> DatabaseAddress:
        if not isinstance(raw, str) or not raw.isprintable() or " " in raw:
            raise ValueError
        url = urlsplit(raw)
        if url.scheme not in ("postgresql", "postgres") or url.fragment or len(url.path) < 2:
            raise ValueError
        return DatabaseAddress(raw)


@dataclass(frozen=True, slots=True)
class KeyText:
    """A master key, checked here and left as it is written: it becomes a key where keys are used."""

    expected: str = f"{MASTER_KEY_BYTES} bytes in base64 or hexadecimal"

    def read(self, raw: object, /) -> str:
        if not isinstance(raw, str):
            raise ValueError
        text = raw.strip()
        if len(text) == 2 * MASTER_KEY_BYTES:
            bytes.fromhex(text)
        elif len(_base64_decoded(text)) != MASTER_KEY_BYTES:
            raise ValueError
        return text


class _IssuerTable(msgspec.Struct, forbid_unknown_fields=True):
    issuer: Annotated[str, msgspec.Meta(min_length=1)]
    jwks: Annotated[str, msgspec.Meta(min_length=1)]
    algorithms: list[str]
    audience: str | None = None


@dataclass(frozen=True, slots=True)
class Issuers:
    expected: str = "a list of tables, each with issuer, jwks, algorithms and, if wanted, audience"

    def read(self, raw: object, /) -> tuple[OutsideIssuer, ...]:
        """From TOML the tables themselves, from anywhere else their JSON."""
        try:
            tables = (
                msgspec.json.decode(raw, type=list[_IssuerTable])
                if isinstance(raw, str)
                else msgspec.convert(raw, list[_IssuerTable])
            )
            issuers = tuple(
                OutsideIssuer(table.issuer, table.jwks, table.audience, tuple(table.algorithms)) for table in tables
            )
        except ValueError as error:
            raise Explained(str(error)) from error
        if len({issuer.issuer for issuer in issuers}) != len(issuers):
            raise Explained("an issuer is there twice")
        return issuers


def _base64_decoded(text: str) -> bytes:
    """Either alphabet, padded or not."""
    text = text.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
