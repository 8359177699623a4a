"""The address of Redis: one server, a cluster, or the master that Sentinel reports. Parsed from a URL with a password.

redis://user:password@host:6379/0          rediss://…                      with TLS
redis+cluster://user:password@h1:7000,h2   rediss+cluster://…
redis+sentinel://user:password@s1,s2:26379/service/0                       rediss+sentinel://…

Query parameters, with TLS only: ssl_ca_certs, ssl_certfile and ssl_keyfile (paths of PEM files); ssl_check_hostname=no.
"""

import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, unquote

from restante.delivery.redis.redis_tls import RedisTls

_URL = re.compile(
    r"(?P<scheme>rediss?)(?:\+(?P<kind>cluster|sentinel))?://"
    r"(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?"
    r"(?P<hosts>[^/@?#]+)(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?"
)
_HOST = re.compile(r"(?:\[(?P<bracketed>[0-9A-Fa-f:]+)\]|(?P<host>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?")
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_CHECKS_NAME = {"yes": True, "true": True, "no": False, "false": False}
_PORTS = {"single": 6379, "cluster": 6379, "sentinel": 26379}


@dataclass(frozen=True, slots=True)
class RedisAddress:
    kind: Literal["single", "cluster", "sentinel"]
    hosts: tuple[tuple[str, int], ...]
    tls: RedisTls | None
    service: str
    database: int
    username: str = field(repr=False)
    password: str = field(repr=False)

    def __str__(self) -> str:
        """The URL without user and password, for operators."""
        scheme = ("redis" if self.tls is None else "rediss") + ("" if self.kind == "single" else f"+{self.kind}")
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        path = "/".join(
            ["", *([self.service] if self.service else []), *([str(self.database)] if self.database else [])]
        )
        return f"{scheme}://{hosts}{path}"


def parse_redis_url(text: str) -> RedisAddress:
    """Parse the URL. The message of a ValueError quotes no part of it, as it may contain a password."""
    found = _URL.fullmatch(text)
    if found is None:
        raise ValueError("not a Redis URL")
    kind: Literal["single", "cluster", "sentinel"] = "single"
    if found["kind"] == "cluster":
        kind = "cluster"
    elif found["kind"] == "sentinel":
        kind = "sentinel"
    hosts = tuple(_host(each, _PORTS[kind]) for each in found["hosts"].split(","))
    if kind == "single" and len(hosts) > 1:
        raise ValueError("several hosts: expected redis+cluster:// or redis+sentinel://")
    parts = [unquote(part) for part in (found["path"] or "").split("/")[1:] if part]
    service = parts.pop(0) if kind == "sentinel" and parts else ""
    if kind == "sentinel" and not service:
        raise ValueError("the name of the Sentinel service is missing: expected it after the hosts")
    if (
        len(parts) > 1
        or any(not part.isascii() or not part.isdigit() for part in parts)
        or (parts and kind == "cluster")
    ):
        raise ValueError("after the hosts: expected the number of a database")
    return RedisAddress(
        kind,
        hosts,
        _tls(found["scheme"] == "rediss", found["query"] or ""),
        service,
        int(parts[0]) if parts else 0,
        unquote(found["user"] or ""),
        unquote(found["password"] or ""),
    )


def _tls(is_enabled: bool, query: str) -> RedisTls | None:
    pairs = parse_qsl(query, keep_blank_values=True)
    given = dict(pairs)
    if len(given) != len(pairs) or not given.keys() <= {*_FILES, "ssl_check_hostname"} or (query and not pairs):
        raise ValueError(
            f"query parameters of the Redis URL: expected {', '.join(_FILES)} or ssl_check_hostname, each once"
        )
    if not is_enabled:
        if given:
            raise ValueError("query parameters are for TLS: expected a Redis URL that begins with rediss")
        return None
    checks_name = _CHECKS_NAME.get(given.get("ssl_check_hostname", "yes"))
    authority, certificate, key = (given.get(name) for name in _FILES)
    if checks_name is None:
        raise ValueError("ssl_check_hostname of the Redis URL: expected yes or no")
    if "" in (authority, certificate, key) or (certificate is None) != (key is None):
        raise ValueError("a path is missing in the Redis URL: ssl_certfile and ssl_keyfile go together")
    return RedisTls(authority, certificate, key, checks_name)


def _host(text: str, default_port: int) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    if found is None or int(found["port"] or 1) not in range(1, 65536):
        raise ValueError("hosts: one is not a valid host and port")
    return found["bracketed"] or found["host"], int(found["port"] or default_port)
