"""Every route of device updates, in one list."""

from collections.abc import Mapping
from dataclasses import dataclass

from restante.database.database import Database
from restante.delivery.signals import Emit
from restante.delivery.sources import Source
from restante.identity.device_tokens import DeviceTokens
from restante.identity.master_key import MasterKey
from restante.identity.refresh_key import RefreshKey
from restante.identity.sign_in import SignIn
from restante.updates.approval import Approval
from restante.updates.pages import asset_routes
from restante.updates.poll import Poll
from restante.updates.routes_auth import AuthRoutes
from restante.updates.routes_authorities import AccountRoutes, AuthorityRoutes
from restante.updates.routes_certificates import CertificateRoutes
from restante.updates.routes_devices import DeviceRoutes
from restante.updates.routes_fleet import FleetRoutes
from restante.updates.routes_install import InstallRoutes
from restante.updates.routes_poll import PollRoutes
from restante.updates.routes_registration import RegistrationRoutes
from restante.updates.routes_self import SelfRoutes
from restante.updates.routes_signals import SignalRoutes
from restante.updates.routes_verification import VerificationRoutes
from restante.web.access import Gate
from restante.web.routes import Route

DAY_SECONDS = 86_400
HOUR_SECONDS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatesParts:
    """What the routes stand on."""

    database: Database
    gate: Gate
    tokens: DeviceTokens
    master_key: MasterKey
    poll: Poll
    emit: Emit
    sources: Mapping[str, Source]
    public_url: str | None
    refresh_token_days: int
    session_hours: int


def updates_routes(parts: UpdatesParts) -> list[Route]:
    database, emit = parts.database, parts.emit
    sign_in = SignIn(database, session_seconds=parts.session_hours * HOUR_SECONDS)
    approval = Approval(database)
    refresh_key = RefreshKey(parts.master_key)
    refresh_seconds = parts.refresh_token_days * DAY_SECONDS
    auth = AuthRoutes(
        database,
        parts.gate,
        parts.tokens,
        sign_in,
        approval,
        refresh_key,
        public_url=parts.public_url,
        refresh_token_seconds=refresh_seconds,
    )
    return [
        *PollRoutes(parts.poll).routes(),
        *auth.routes(),
        *VerificationRoutes(database, parts.gate, sign_in, approval, public_url=parts.public_url).routes(),
        *RegistrationRoutes(database, parts.tokens, refresh_key, refresh_token_seconds=refresh_seconds).routes(),
        *DeviceRoutes(database).routes(),
        *SelfRoutes(database).routes(),
        *InstallRoutes(database, emit).routes(),
        *CertificateRoutes(database, emit, parts.master_key).routes(),
        *AuthorityRoutes(database, emit, parts.master_key).routes(),
        *AccountRoutes(database).routes(),
        *SignalRoutes(database, emit).routes(),
        *FleetRoutes(database, parts.sources).routes(),
        *asset_routes(),
    ]
