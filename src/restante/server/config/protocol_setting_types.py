"""Types of settings whose values belong to a protocol: command types, rate limits, event types, push targets, URIs."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from restante.commands.audit.signed_heads import AnchorTarget
from restante.commands.dispatch.rate_limits import DEFAULT_LIMIT, DEFAULT_LIMITS, RateLimit, RateRules
from restante.commands.lifecycle.command_types import standard_type
from restante.core.errors import BadInput
from restante.core.events.addresses import AllowedTargets, parse_allowed
from restante.events.clients.authentication.client_keys import ALGORITHMS
from restante.events.publishing.token_claims import check_uri, is_event_type
from restante.identity.clients.scopes import SCOPES
from restante.server.config.setting_types import CommaList, InvalidValue, split_list

DEFAULT = "default"
LIMIT_MAX = 1_000_000
WINDOW_MAX_SECONDS = 86_400

_RATE = re.compile(r"\s*(?P<name>\w+)\s*=\s*(?P<limit>[0-9]{1,9})\s*/\s*(?P<window>[0-9]{1,9})\s*", re.ASCII)

_FINANCIAL_ID = re.compile(r"[A-Za-z0-9._~:/-]{1,128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RateLimits:
    expected: str = "TYPE=LIMIT/SECONDS, with commas between several; `default` stands for all other types"

    def parse(self, raw: object, /) -> RateRules:
        """Parse a table of pairs of a TOML file, or a text. Types that are not named keep their default limit."""
        if isinstance(raw, RateRules):
            return raw
        limits = dict(_pairs_of_table(raw) if isinstance(raw, Mapping) else _pairs_of_text(str(raw)))
        default = limits.pop(DEFAULT, DEFAULT_LIMIT)
        return RateRules({**DEFAULT_LIMITS, **limits}, default)


@dataclass(frozen=True, slots=True)
class CommandTypes:
    expected: str = "a list of command types"

    def parse(self, raw: object, /) -> CommaList[str]:
        return CommaList(map(_command_type, split_list(raw)))


@dataclass(frozen=True, slots=True)
class AuditAnchor:
    expected: str = AnchorTarget.expected
    has_secret: bool = True

    def parse(self, raw: object, /) -> AnchorTarget:
        return AnchorTarget(str(raw))


@dataclass(frozen=True, slots=True)
class EventTypes:
    expected: str = "event types, each a URI, with commas between them"

    def parse(self, raw: object, /) -> CommaList[str]:
        names = CommaList(dict.fromkeys(split_list(raw)))
        for name in names:
            if not is_event_type(name):
                raise InvalidValue(f"{name!r} is not a URI, urn:… or https://…")
        return names


@dataclass(frozen=True, slots=True)
class Scopes:
    expected: str = "scopes of clients, with commas between them: " + ", ".join(SCOPES)

    def parse(self, raw: object, /) -> CommaList[str]:
        scopes = CommaList(dict.fromkeys(split_list(raw)))
        if not scopes or not set(scopes) <= set(SCOPES):
            raise ValueError
        return scopes


AUTO: CommaList[str] = CommaList(["auto"])


@dataclass(frozen=True, slots=True)
class AssertionAlgorithms:
    expected: str = "auto, or algorithms with commas between them: " + ", ".join(ALGORITHMS)

    def parse(self, raw: object, /) -> CommaList[str]:
        algorithms = CommaList(dict.fromkeys(split_list(raw)))
        if algorithms == AUTO:
            return AUTO
        if not algorithms or not set(algorithms) <= set(ALGORITHMS):
            raise ValueError
        return algorithms


@dataclass(frozen=True, slots=True)
class PushTargets:
    expected: str = "networks, addresses or host names, for example 10.1.0.0/16, hooks.internal.example"

    def parse(self, raw: object, /) -> AllowedTargets:
        if isinstance(raw, AllowedTargets):
            return raw
        entries = split_list(raw)
        try:
            return parse_allowed(entries)
        except ValueError as error:
            raise InvalidValue(str(error)) from None


@dataclass(frozen=True, slots=True)
class FinancialId:
    expected: str = "1 to 128 letters, digits and any of . _ ~ : / -"

    def parse(self, raw: object, /) -> str:
        if not isinstance(raw, str) or not _FINANCIAL_ID.fullmatch(raw):
            raise ValueError
        return raw


@dataclass(frozen=True, slots=True)
class Uri:
    expected: str = "a URI, for example https://bank.example"

    def parse(self, raw: object, /) -> str:
        try:
            check_uri(raw, "")
        except BadInput:
            raise ValueError from None
        return str(raw)


def _pairs_of_text(text: str) -> Iterable[tuple[str, RateLimit]]:
    for part in filter(str.strip, text.split(",")):
        match = _RATE.fullmatch(part)
        if match is None:
            raise ValueError
        yield _rate_limit(match["name"], int(match["limit"]), int(match["window"]))


def _pairs_of_table(table: Mapping[object, object]) -> Iterable[tuple[str, RateLimit]]:
    for name, pair in table.items():
        match pair:
            case [int(limit), int(window)]:
                yield _rate_limit(str(name), limit, window)
            case _:
                raise InvalidValue(f"{name} is not a pair of a limit and a window")


def _rate_limit(name: str, limit: int, window_seconds: int) -> tuple[str, RateLimit]:
    if not 1 <= limit <= LIMIT_MAX or not 1 <= window_seconds <= WINDOW_MAX_SECONDS:
        raise InvalidValue(f"a limit is 1 to {LIMIT_MAX}, a window 1 to {WINDOW_MAX_SECONDS} seconds")
    return (name if name == DEFAULT else _command_type(name)), RateLimit(limit, window_seconds)


def _command_type(name: str) -> str:
    try:
        return standard_type(name)
    except BadInput:
        raise InvalidValue(f"{name} is no command type") from None
