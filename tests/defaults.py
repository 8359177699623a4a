"""Parts of a server with the values of the default settings, for tests that care about few of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.applications import Starlette

from restante.commands.dispatch.claims import ClaimOptions
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.postgres.engine import PostgresEngine
from restante.delivery.log import log
from restante.delivery.log.log import SignalsPublished
from restante.delivery.log.signals import Signal
from restante.identity.devices.device_tokens import DeviceTokens
from restante.identity.jwt.issuers import ExternalIssuers
from restante.identity.signing_keys import SigningKeys
from restante.server.config.options import commands_options
from restante.server.config.settings import Settings
from restante.web.access import AccessControl
from restante.web.application import build_application
from restante.web.routes import ResponseFormat, Route

DEFAULTS = Settings()


def new_postgres_engine(url: str, **changed: Any) -> PostgresEngine:
    connections = {"writers": DEFAULTS.database_writers, "readers": DEFAULTS.database_readers}
    return PostgresEngine(url, **{**connections, **changed})


def new_device_tokens(
    database: Database, keys: SigningKeys, issuers: ExternalIssuers | None = None, **changed: Any
) -> DeviceTokens:
    options = {
        "access_token_seconds": DEFAULTS.access_token_seconds,
        "cache_entries_max": DEFAULTS.token_cache_max,
    }
    return DeviceTokens(database, keys, issuers or ExternalIssuers(), **{**options, **changed})


def new_application(
    routes: Iterable[Route], access_control: AccessControl, default_format: ResponseFormat, **changed: Any
) -> Starlette:
    options = {"body_bytes_max": DEFAULTS.body_bytes_max, **changed}
    return build_application(routes, access_control, default_format, **options)


def append_signals(
    conn: Connection, device_id: int, signals: Iterable[Signal], keep: int = DEFAULTS.log_keep_signals
) -> SignalsPublished:
    return log.append(conn, device_id, signals, keep)


def append_all_signals(
    conn: Connection, signals: Mapping[int, Sequence[Signal]], keep: int = DEFAULTS.log_keep_signals
) -> list[SignalsPublished]:
    return log.append_all(conn, signals, keep)


def claim_options(**changed: Any) -> ClaimOptions:
    return replace(commands_options(DEFAULTS).for_claims(), **changed)
