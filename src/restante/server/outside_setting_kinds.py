"""What settings that name other services may be. Their URLs bear passwords: these are never shown or said again."""

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from restante.database.outside import OutsideAddress
from restante.database.outside_drivers import (
    MYSQL_OPTIONS,
    POSTGRES_OPTIONS,
    SQLITE_OPTIONS,
    Refused,
    options_of,
)
from restante.delivery.outbox import OWN_SOURCE
from restante.delivery.redis_address import RedisAddress, parse_redis_url
from restante.server.setting_kinds import Explained

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Engine = Literal["postgres", "mysql", "sqlite"]
_SCHEMES: dict[str, tuple[Engine, int, frozenset[str]]] = {
    "postgresql": ("postgres", 5432, POSTGRES_OPTIONS),
    "postgres": ("postgres", 5432, POSTGRES_OPTIONS),
    "mysql": ("mysql", 3306, MYSQL_OPTIONS),
    "mariadb": ("mysql", 3306, MYSQL_OPTIONS),
    "sqlite": ("sqlite", 0, SQLITE_OPTIONS),
}


class OutsideAddresses(tuple[OutsideAddress, ...]):
    """Several, shown by their names, which bear no password."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(address.name for address in self)


@dataclass(frozen=True, slots=True)
class OutboxUrls:
    expected: str = "URLs of databases: postgresql://…, mysql://… or sqlite:///path"
    # Its values carry secrets within: what was given is not repeated when it is refused, and values are shown by name.
    bears_secret: bool = True
    is_repeatable: bool = True

    def read(self, raw: object, /) -> OutsideAddresses:
        """From TOML and the command line a list; from the environment several with space between, or JSON."""
        texts = _texts(raw)
        addresses = OutsideAddresses(_address(text) for text in texts)
        names = [address.name for address in addresses]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise Explained(f"{twice} is there twice; another name can be given with ?name=…")
        return addresses


@dataclass(frozen=True, slots=True)
class RedisUrl:
    expected: str = "redis://host:6379/0, rediss://…, redis+cluster://h1,h2 or redis+sentinel://h1,h2/service"
    bears_secret: bool = True

    def read(self, raw: object, /) -> RedisAddress:
        if not isinstance(raw, str):
            raise ValueError
        try:
            return parse_redis_url(raw.strip())
        except ValueError as error:
            raise Explained(str(error)) from None


def _texts(raw: object) -> list[str]:
    try:
        if isinstance(raw, str):
            return msgspec.json.decode(raw, type=list[str]) if raw.lstrip().startswith("[") else raw.split()
        return msgspec.convert(raw, list[str], strict=False)
    except msgspec.MsgspecError:
        # What it says may repeat what was given.
        raise ValueError from None


def _address(text: str) -> OutsideAddress:
    try:
        url = urlsplit(text)
        engine, port, options = _SCHEMES[url.scheme]
        given = options_of(text, options)
        host = given.get("host") or given.get("unix_socket") or url.hostname
        name = dict(parse_qsl(url.query)).get("name") or _plain_name(url.scheme, host, url.port or port, url.path)
    except KeyError:
        raise Explained("one of them begins with none of " + ", ".join(f"{scheme}://" for scheme in _SCHEMES)) from None
    except Refused as error:
        raise Explained(str(error)) from None
    except ValueError:
        raise Explained("one of them is not a URL") from None
    if len(url.path) < 2 or url.path.endswith("/") or url.fragment:
        raise Explained("one of them names no database: expected it behind the host, as in mysql://user@host/shop")
    if "name=" in url.query and (not _NAME.fullmatch(name) or name == OWN_SOURCE):
        raise Explained(f"name: expected letters, digits, dots and dashes, at most 64, and not {OWN_SOURCE}")
    return OutsideAddress(name, engine, text)


def _plain_name(scheme: str, host: str | None, port: int, path: str) -> str:
    if scheme == "sqlite":
        return f"sqlite://{unquote(path)}"
    shown = f"[{host}]" if host and ":" in host else host or "localhost"
    return f"{scheme}://{shown}:{port}{unquote(path)}"
