"""Types of settings that are URLs of other services: PostgreSQL, external outboxes, Redis.

These URLs may contain passwords. No message repeats a refused URL, and values are shown without their passwords.
"""

import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from restante.database.external.drivers import (
    MYSQL_OPTIONS,
    POSTGRES_OPTIONS,
    SQLITE_OPTIONS,
    InvalidUrl,
    options_of,
    sqlite_path,
)
from restante.database.external.external_database import ExternalAddress
from restante.delivery.outbox.outbox import OWN_SOURCE
from restante.delivery.redis.redis_address import RedisAddress, parse_redis_url
from restante.server.config.setting_types import InvalidValue

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Engine = Literal["postgres", "mysql", "sqlite"]
_SCHEMES: dict[str, tuple[Engine, int, frozenset[str]]] = {
    "postgresql": ("postgres", 5432, POSTGRES_OPTIONS),
    "postgres": ("postgres", 5432, POSTGRES_OPTIONS),
    "mysql": ("mysql", 3306, MYSQL_OPTIONS),
    "mariadb": ("mysql", 3306, MYSQL_OPTIONS),
    "sqlite": ("sqlite", 0, SQLITE_OPTIONS),
}


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """The URL of a database, with its password. Only the driver reads `url`."""

    url: str = field(repr=False)

    def __str__(self) -> str:
        """The URL without its password and options."""
        url = urlsplit(self.url)
        login, at, host = url.netloc.rpartition("@")
        user = login.partition(":")[0]
        text = f"{url.scheme}://{user}{':…' if ':' in login else ''}{at}{host}{url.path}"
        return f"{text}?…" if url.query else text


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    expected: str = "postgresql://USER:PASSWORD@HOST/DATABASE"
    has_secret: bool = True

    def parse(self, raw: object, /) -> DatabaseAddress:
        if not isinstance(raw, str) or not raw.isprintable() or " " in raw:
            raise ValueError
        url = urlsplit(raw)
        if url.scheme not in ("postgresql", "postgres") or url.fragment or len(url.path) < 2:
            raise ValueError
        return DatabaseAddress(raw)


class ExternalAddresses(tuple[ExternalAddress, ...]):
    """Addresses of external databases, shown by their names, which contain no password."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(address.name for address in self)


@dataclass(frozen=True, slots=True)
class OutboxUrls:
    expected: str = "URLs of databases: postgresql://…, mysql://…, sqlite:///absolute/path or sqlite:relative/path"
    has_secret: bool = True
    is_repeatable: bool = True

    def parse(self, raw: object, /) -> ExternalAddresses:
        """Parse a list of a TOML file or of the command line, or a text: URLs with spaces between them, or JSON."""
        addresses = ExternalAddresses(map(_external_address, _texts(raw)))
        names = [address.name for address in addresses]
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            raise InvalidValue(f"{duplicate} is listed twice; give one of them another name with ?name=…")
        return addresses


@dataclass(frozen=True, slots=True)
class RedisUrl:
    expected: str = "redis://host:6379/0, rediss://…, redis+cluster://h1,h2 or redis+sentinel://h1,h2/service"
    has_secret: bool = True

    def parse(self, raw: object, /) -> RedisAddress:
        if not isinstance(raw, str):
            raise ValueError
        try:
            return parse_redis_url(raw.strip())
        except ValueError as error:
            raise InvalidValue(str(error)) from None


def _texts(raw: object) -> list[str]:
    try:
        if isinstance(raw, str):
            return msgspec.json.decode(raw, type=list[str]) if raw.lstrip().startswith("[") else raw.split()
        return msgspec.convert(raw, list[str], strict=False)
    except msgspec.MsgspecError:
        # The text of the exception may contain the URL.
        raise ValueError from None


def _external_address(text: str) -> ExternalAddress:
    try:
        url = urlsplit(text)
        engine, port, known_options = _SCHEMES[url.scheme]
        options = options_of(text, known_options)
        host = options.get("host") or options.get("unix_socket") or url.hostname
        database = str(sqlite_path(text)) if engine == "sqlite" else unquote(url.path)
        name = dict(parse_qsl(url.query)).get("name") or _default_name(url.scheme, host, url.port or port, database)
    except KeyError:
        schemes = ", ".join(f"{scheme}://" for scheme in _SCHEMES)
        raise InvalidValue(f"one of them does not begin with one of {schemes}") from None
    except InvalidUrl as error:
        raise InvalidValue(str(error)) from None
    except ValueError:
        raise InvalidValue("one of them is not a URL") from None
    if len(database) < 2 or database.endswith("/") or url.fragment:
        raise InvalidValue("one of them names no database: expected it after the host, as in mysql://user@host/shop")
    if "name=" in url.query and (not _NAME.fullmatch(name) or name == OWN_SOURCE):
        raise InvalidValue(f"name: expected letters, digits, dots and dashes, at most 64, and not {OWN_SOURCE}")
    return ExternalAddress(name, engine, text)


def _default_name(scheme: str, host: str | None, port: int, database: str) -> str:
    if scheme == "sqlite":
        return f"sqlite://{database}"
    shown = f"[{host}]" if host and ":" in host else host or "localhost"
    return f"{scheme}://{shown}:{port}{database}"
