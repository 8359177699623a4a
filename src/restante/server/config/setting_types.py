"""Types of settings: each one parses a text, or a value of a TOML file, into the value of a setting.

A type does not know where a value comes from. It refuses a value with a plain ValueError, or with InvalidValue if there
is more to say; the caller adds the name of the setting and the origin of the value. `expected` completes the sentence
"expected …" in that message and in docs/settings.md.

Types of values that belong to a protocol are in `protocol_setting_types.py`, URLs of other services in
`url_setting_types.py`.
"""

import base64
import ipaddress
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from restante.identity.jwt.issuers import ExternalIssuer
from restante.web.client_cert import Network

T = TypeVar("T")

MASTER_KEY_BYTES = 32
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")
_ADDRESS = re.compile(r"(?:\[(?P<bracketed>[^\[\]]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>[0-9]{1,5})")
_PATH = re.compile(r"(?:/[A-Za-z0-9_.~-]+)*/?", re.ASCII)


class InvalidValue(ValueError):
    """A value is refused for a reason that `expected` does not explain; the text is shown to the user."""


class SettingType(Protocol):
    @property
    def expected(self) -> str: ...
    def parse(self, raw: object, /) -> Any:
        """Return the value, or raise ValueError."""


class CommaList(tuple[T, ...]):
    """A tuple that is shown with commas between its items."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(map(str, self))


def split_list(raw: object) -> list[str]:
    """The items of a list of a TOML file, or of a text with commas between them; empty items are skipped."""
    if not isinstance(raw, str | list | tuple):
        raise ValueError
    items = raw.split(",") if isinstance(raw, str) else map(str, raw)
    return [item.strip() for item in items if item.strip()]


@dataclass(frozen=True, slots=True)
class Integer:
    at_least: int
    at_most: int

    @property
    def expected(self) -> str:
        return f"a whole number from {self.at_least} to {self.at_most}"

    def parse(self, raw: object, /) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int | str):
            raise ValueError
        value = int(raw)
        if not self.at_least <= value <= self.at_most:
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Number:
    at_least: float
    at_most: float

    @property
    def expected(self) -> str:
        return f"a number from {self.at_least:g} to {self.at_most:g}"

    def parse(self, raw: object, /) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            raise ValueError
        value = float(raw)
        if not math.isfinite(value) or not self.at_least <= value <= self.at_most:
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Boolean:
    expected: str = "true or false"

    def parse(self, raw: object, /) -> bool:
        if isinstance(raw, bool):
            return raw
        word = str(raw).lower()
        if word not in (*_TRUE, *_FALSE):
            raise ValueError
        return word in _TRUE


@dataclass(frozen=True, slots=True)
class Choice:
    choices: tuple[str, ...]

    @property
    def expected(self) -> str:
        return "one of " + ", ".join(self.choices)

    def parse(self, raw: object, /) -> str:
        if raw not in self.choices:
            raise ValueError
        return str(raw)


@dataclass(frozen=True, slots=True)
class Text:
    characters_max: int = 512

    @property
    def expected(self) -> str:
        return f"1 to {self.characters_max} printable characters"

    def parse(self, raw: object, /) -> str:
        if not isinstance(raw, str) or not 1 <= len(raw) <= self.characters_max or not raw.isprintable():
            raise ValueError
        return raw


@dataclass(frozen=True, slots=True)
class FolderPath:
    expected: str = "the path of a folder"

    def parse(self, raw: object, /) -> Path:
        if not isinstance(raw, str | Path) or str(raw) == "" or "\0" in str(raw):
            raise ValueError
        try:
            return Path(raw).expanduser()
        except RuntimeError as no_such_home:
            raise ValueError from no_such_home


@dataclass(frozen=True, slots=True)
class FilePath:
    """The path of a file. Whether it exists and is valid is checked when it is used."""

    expected: str = "the path of a file"

    def parse(self, raw: object, /) -> Path:
        return FolderPath().parse(raw)


class Address(NamedTuple):
    """A host and a port to listen on."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect to it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


@dataclass(frozen=True, slots=True)
class ListenAddress:
    expected: str = "HOST:PORT, for example 127.0.0.1:8080 or [::1]:8080"

    def parse(self, raw: object, /) -> Address:
        match = _ADDRESS.fullmatch(raw) if isinstance(raw, str) else None
        if match is None or int(match["port"]) > 65535:
            raise ValueError
        if match["bracketed"]:
            ipaddress.IPv6Address(match["bracketed"])
        return Address(match["bracketed"] or match["host"], int(match["port"]))


@dataclass(frozen=True, slots=True)
class NetworkList:
    expected: str = "addresses or networks, for example 127.0.0.1, 10.0.0.0/8"

    def parse(self, raw: object, /) -> CommaList[Network]:
        return CommaList(_network(item) for item in split_list(raw))


@dataclass(frozen=True, slots=True)
class PublicUrl:
    expected: str = "https://host, https://host:port or the same with http"

    def parse(self, raw: object, /) -> str:
        if not isinstance(raw, str) or not raw.isprintable() or " " in raw:
            raise ValueError
        url = urlsplit(raw.removesuffix("/"))
        is_bare = not (url.path or url.query or url.fragment or "@" in url.netloc)
        # `.port` raises ValueError itself if it is not a port.
        if url.scheme not in ("http", "https") or not url.hostname or not is_bare or url.port == 0:
            raise ValueError
        return f"{url.scheme}://{url.netloc}"


@dataclass(frozen=True, slots=True)
class BasePath:
    expected: str = "a path such as /open-banking/v4.0, or nothing"

    def parse(self, raw: object, /) -> str:
        """Return the path without a slash at its end, because the paths below it begin with one."""
        if not isinstance(raw, str) or not _PATH.fullmatch(raw):
            raise ValueError
        return raw.rstrip("/")


@dataclass(frozen=True, slots=True)
class SecretText:
    """A token or a password."""

    characters_min: int = 1

    @property
    def expected(self) -> str:
        return f"{self.characters_min} to 1000 printable ASCII characters"

    def parse(self, raw: object, /) -> str:
        if not isinstance(raw, str) or not self.characters_min <= len(raw) <= 1000:
            raise ValueError
        if not raw.isascii() or not raw.isprintable():
            raise ValueError
        return raw


@dataclass(frozen=True, slots=True)
class MasterKeyText:
    """A master key, checked here but kept as text; the module that uses it decodes it."""

    expected: str = f"{MASTER_KEY_BYTES} bytes in base64 or hexadecimal"

    def parse(self, raw: object, /) -> str:
        if not isinstance(raw, str):
            raise ValueError
        text = raw.strip()
        if len(text) == 2 * MASTER_KEY_BYTES:
            bytes.fromhex(text)
        elif len(_decode_base64(text)) != MASTER_KEY_BYTES:
            raise ValueError
        return text


class IssuerList(tuple[ExternalIssuer, ...]):
    """External issuers, shown by their names."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(issuer.issuer for issuer in self)


class _IssuerTable(msgspec.Struct, forbid_unknown_fields=True):
    issuer: Annotated[str, msgspec.Meta(min_length=1)]
    jwks: Annotated[str, msgspec.Meta(min_length=1)]
    algorithms: list[str]
    audience: str | None = None


@dataclass(frozen=True, slots=True)
class Issuers:
    expected: str = "a list of tables, each with issuer, jwks, algorithms and, if wanted, audience"

    def parse(self, raw: object, /) -> IssuerList:
        """Parse the tables of a TOML file, or their JSON."""
        try:
            tables = (
                msgspec.json.decode(raw, type=list[_IssuerTable])
                if isinstance(raw, str)
                else msgspec.convert(raw, list[_IssuerTable])
            )
            issuers = IssuerList(
                ExternalIssuer(table.issuer, table.jwks, table.audience, tuple(table.algorithms)) for table in tables
            )
        except ValueError as error:
            raise InvalidValue(str(error)) from error
        if len({issuer.issuer for issuer in issuers}) != len(issuers):
            raise InvalidValue("an issuer is listed twice")
        return issuers


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise InvalidValue(str(error)) from None


def _decode_base64(text: str) -> bytes:
    """Decode either alphabet, with or without padding."""
    text = text.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
