"""Every setting, declared once: name with the unit at its end, type, what it may be, what it means, default.

The command line's flags, the environment variables, the TOML keys, the checks at the start and
docs/settings.md are all made from these declarations; adding a setting is adding one. Where values come from
is the business of `settings_sources.py`.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from restante.commands.rate_windows import RateRules
from restante.core.addresses import NOTHING_MORE, Allowed
from restante.delivery.redis_address import RedisAddress
from restante.events.event_catalogue import SUPPORTED_BY_DEFAULT
from restante.events.jws import ALGORITHMS
from restante.identity.issuers import OutsideIssuer
from restante.server.access_setting_kinds import Addresses, File, Networks
from restante.server.command_setting_kinds import CommandTypes, RateLimits, TypeNames
from restante.server.event_setting_kinds import Uri, Words
from restante.server.outside_setting_kinds import OutboxUrls, OutsideAddresses, RedisUrl
from restante.server.push_setting_kinds import Destinations, EventTypeNames, EventTypes
from restante.server.roles import EVERY_ROLE, RoleNames, Roles
from restante.server.setting_kinds import (
    Address,
    BasePath,
    DatabaseAddress,
    DatabaseUrl,
    Folder,
    Fraction,
    Issuers,
    KeyText,
    Kind,
    ListenAddress,
    OneOf,
    PublicUrl,
    Whole,
    YesOrNo,
)

ENVIRONMENT_PREFIX = "RESTANTE_"
# The edge commands contract names these environment variables; they are understood without the prefix, too.
CONTRACT_SETTINGS = frozenset(
    [
        "enable_command_signature",
        "command_lease_duration_sec",
        "max_command_retries",
        "default_retry_backoff_sec",
        "require_ack_nonce",
        "redis_url",
    ]
)
_LOCAL = Address("127.0.0.1", 8080)
_RATES = RateRules()
_NO_TYPES = TypeNames()
_NO_NETWORKS = Networks()
_SIGNALS = EventTypeNames(SUPPORTED_BY_DEFAULT)
_WRITTEN_AS_THEY_ARE = Address | TypeNames | Networks | EventTypeNames | OutsideAddresses
_NO_OUTBOXES = OutsideAddresses()


@dataclass(frozen=True, slots=True)
class Declaration:
    """What is known of a setting before anybody gave it a value."""

    name: str
    default: Any
    kind: Kind
    meaning: str
    secret: bool

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.upper()

    @property
    def bears_secret(self) -> bool:
        """Whether what is given may hold a secret within, such as a URL's password."""
        return self.secret or getattr(self.kind, "bears_secret", False)

    @property
    def contract_variable(self) -> str | None:
        return self.name.upper() if self.name in CONTRACT_SETTINGS else None

    @property
    def flag(self) -> str | None:
        """None for a secret, as command lines are seen by everybody on the machine."""
        return None if self.secret else "--" + self.name.replace("_", "-")

    def shown(self, value: object) -> str:
        """The value for human eyes, which see no secrets."""
        if value is None or value == ():
            return ""
        if self.secret:
            return "(hidden)"
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, float):
            return f"{value:g}"
        if isinstance(value, tuple) and not isinstance(
            value, Address | TypeNames | Networks | EventTypeNames | OutsideAddresses | RoleNames
        ):
            return ", ".join(issuer.issuer for issuer in value)
        return str(value)


@dataclass(frozen=True, kw_only=True)
class Settings:
    data: Annotated[
        Path, Folder(), "The folder that holds the embedded database, the master key and everything else kept."
    ] = Path("data")
    database: Annotated[
        DatabaseAddress | None,
        DatabaseUrl(),
        "The PostgreSQL database to use; without it, an embedded one in the data folder.",
    ] = None
    database_writers: Annotated[
        int, Whole(1, 64), "How many connections to PostgreSQL write at the same time, in each server."
    ] = 4
    database_readers: Annotated[
        int, Whole(1, 64), "How many connections to PostgreSQL read at the same time, in each server."
    ] = 4
    database_wait_seconds: Annotated[
        float,
        Fraction(0, 86_400),
        "How long a starting server waits for PostgreSQL if it cannot be reached; 0 ends it at once.",
    ] = 300.0
    listen: Annotated[Address, ListenAddress(), "Where the server listens."] = _LOCAL
    roles: Annotated[RoleNames, Roles(), "What this process does; without it, everything."] = EVERY_ROLE
    workers: Annotated[
        int, Whole(1, 256), "How many processes answer on the address; more than one needs PostgreSQL."
    ] = 1
    public_url: Annotated[
        str | None,
        PublicUrl(),
        "The address devices and people reach the server under; without it, the one each request came to.",
    ] = None
    log_format: Annotated[
        Literal["auto", "console", "json"],
        OneOf(("auto", "console", "json")),
        "How log lines are written; auto is console on a terminal and json elsewhere.",
    ] = "auto"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        OneOf(("debug", "info", "warning", "error")),
        "The least important log lines to write.",
    ] = "info"
    master_key: Annotated[
        str | None,
        KeyText(),
        "What private keys are sealed with at rest; without it, a key file is made in the data folder.",
    ] = field(default=None, repr=False)
    access_token_seconds: Annotated[int, Whole(1, 604_800), "How long a device's access token is valid."] = 3600
    refresh_token_days: Annotated[int, Whole(1, 3650), "How long a device's refresh token is valid."] = 30
    session_hours: Annotated[int, Whole(1, 8760), "How long a person stays signed in."] = 12
    issuers: Annotated[
        tuple[OutsideIssuer, ...],
        Issuers(),
        "Outside issuers whose device tokens are accepted too; in the environment and as a flag: JSON.",
    ] = ()
    token_cache_max: Annotated[int, Whole(0, 100_000_000), "How many verified tokens are remembered in memory."] = (
        1_000_000
    )
    tail_cache_max: Annotated[
        int, Whole(0, 100_000_000), "For how many devices the newest signal's place is remembered in memory."
    ] = 2_000_000
    poll_interval_seconds: Annotated[
        int,
        Whole(1, 86_400),
        "How often a device is asked to poll; each one's moment is spread over the interval.",
    ] = 300
    rollout_poll_interval_seconds: Annotated[
        int, Whole(1, 86_400), "How often a device is asked to poll while a rollout wants speed."
    ] = 15
    rollout_window_seconds: Annotated[
        int, Whole(0, 86_400), "How long after a signal a device is asked to poll at the rollout's pace."
    ] = 600
    poll_rate_per_second: Annotated[
        float, Fraction(0.001, 100_000), "How many polls a second one device may make over time."
    ] = 1.0
    poll_burst: Annotated[int, Whole(1, 1_000_000), "How many polls one device may make at once."] = 20
    retry_after_spread_seconds: Annotated[
        int, Whole(0, 3600), "Over how long the return of refused callers is spread."
    ] = 5
    coalesce_milliseconds: Annotated[
        int, Whole(0, 10_000), "How long a woken poll waits for more signals before it is answered."
    ] = 5
    log_keep_signals: Annotated[
        int, Whole(1, 1_000_000), "How many of each device's signals are kept; older ones are trimmed."
    ] = 1000
    direct_signals: Annotated[
        bool, YesOrNo(), "Write signals straight to the devices' logs instead of through the outbox."
    ] = False
    redis_url: Annotated[
        RedisAddress | None,
        RedisUrl(),
        "Where Redis is, if the log is to have a fast copy in its streams, and rate windows one in sorted sets.",
    ] = None
    outbox: Annotated[
        OutsideAddresses,
        OutboxUrls(),
        "Databases of your own whose outbox tables are drained too; each may be given a name with ?name=….",
    ] = _NO_OUTBOXES
    outbox_interval_seconds: Annotated[
        float,
        Fraction(0.01, 3600),
        "How often an idle dispatcher looks into an outbox unasked; soon after rows more often.",
    ] = 5.0
    outbox_batch: Annotated[int, Whole(1, 10_000), "How many outbox rows the dispatcher claims at once."] = 100
    outbox_lease_seconds: Annotated[
        float,
        Fraction(0.1, 3600),
        "How long claimed rows are the dispatcher's own before another may take them.",
    ] = 30.0
    outbox_retry_base_seconds: Annotated[
        float,
        Fraction(0.01, 86_400),
        "The wait after a row's first failure; it doubles with each further one.",
    ] = 1.0
    outbox_retry_max_seconds: Annotated[
        float, Fraction(0.01, 86_400), "The longest wait between two attempts at a row."
    ] = 300.0
    outbox_attempts_max: Annotated[
        int, Whole(1, 1000), "After how many failed attempts a row is given up as FAILED."
    ] = 10
    outbox_keep_delivered_days: Annotated[
        int, Whole(0, 3650), "How long delivered rows stay in the outbox to be looked at."
    ] = 7
    enable_command_signature: Annotated[
        bool, YesOrNo(), "Sign the commands that collectors are handed, each with the collector's own secret."
    ] = False
    require_ack_nonce: Annotated[
        bool, YesOrNo(), "Refuse ACKs without their command's nonce, where commands are signed."
    ] = False
    command_lease_duration_sec: Annotated[
        int, Whole(1, 86_400), "How long a collector has a command to itself before others are offered it."
    ] = 60
    max_command_retries: Annotated[
        int, Whole(0, 100), "How often a command that failed is tried again, unless it says otherwise itself."
    ] = 3
    default_retry_backoff_sec: Annotated[
        int, Whole(1, 86_400), "The wait before a command's first retry; it doubles with each further one."
    ] = 30
    command_rate_limits: Annotated[
        RateRules,
        RateLimits(),
        "How many commands of a type a site is handed within a sliding window.",
    ] = _RATES
    priority_ageing_seconds: Annotated[
        int,
        Whole(0, 86_400),
        "How much waiting a command's priority point is worth; 0: priority alone decides, however long others wait.",
    ] = 300
    commands_needing_approval: Annotated[
        TypeNames, CommandTypes(), "The command types that a second person must approve."
    ] = _NO_TYPES
    approval_from_miners: Annotated[
        int, Whole(0, 1_000_000), "From how many miners on a command needs approval, whatever its type; 0: never."
    ] = 0
    secret_overlap_seconds: Annotated[
        int, Whole(0, 2_592_000), "How long a collector's old secret still verifies ACKs after it was replaced."
    ] = 86_400
    telemetry_history_records: Annotated[
        int, Whole(1, 10_000), "How many telemetry records of each miner are kept."
    ] = 100
    telemetry_gap_seconds: Annotated[
        int, Whole(1, 86_400), "After how long without a record a rule's condition is no longer taken to have held."
    ] = 300
    tls_certificate: Annotated[
        Path | None, File(), "The server's certificate with its chain, in PEM; with it, the server speaks TLS."
    ] = None
    tls_key: Annotated[Path | None, File(), "The private key of the server's certificate, in PEM."] = None
    tls_client_ca: Annotated[
        Path | None, File(), "The authorities that clients' certificates must lead to, in PEM: mutual TLS."
    ] = None
    trusted_proxies: Annotated[
        Networks,
        Addresses(),
        "Proxies that terminate TLS: from them, and from nobody else, `Client-Cert` is believed.",
    ] = _NO_NETWORKS
    mtls_url: Annotated[
        str | None, PublicUrl(), "Where clients with certificates are to call, if not at the public address."
    ] = None
    bound_tokens: Annotated[
        Literal["auto", "required", "optional"],
        OneOf(("auto", "required", "optional")),
        "Whether clients' access tokens must be bound to a certificate; auto: everywhere but in development.",
    ] = "auto"
    client_token_seconds: Annotated[int, Whole(1, 86_400), "How long a client's access token is valid."] = 600
    client_assertion_seconds_max: Annotated[
        int, Whole(1, 3600), "How long a client's signed assertion may be valid at most."
    ] = 300
    token_failures_per_minute: Annotated[
        int,
        Whole(1, 100_000),
        "How often a minute one certificate, or one address without, may fail to authenticate at /token.",
    ] = 10
    authorization_servers: Annotated[
        tuple[OutsideIssuer, ...],
        Issuers(),
        "Outside authorization servers whose access tokens clients may use, each with its audience; as `issuers`.",
    ] = ()
    events_base: Annotated[
        str, BasePath(), "Under which path event polling is served, beside the root; empty: at the root only."
    ] = "/open-banking/v4.0"
    events_max: Annotated[int, Whole(1, 10_000), "How many events a poll is handed at most."] = 100
    events_answer_bytes_max: Annotated[
        int, Whole(1, 1_073_741_824), "How many bytes of event tokens a poll is handed at most; one always fits."
    ] = 4_194_304
    events_wait_seconds: Annotated[int, Whole(0, 3600), "How long a poll for events waits for one; 0: not at all."] = 30
    events_lenient: Annotated[
        bool, YesOrNo(), "Pass over members of a poll's body that are not known, instead of refusing it."
    ] = False
    events_poll_rate_per_second: Annotated[
        float, Fraction(0.001, 100_000), "How many polls for events a second one client may make over time."
    ] = 50.0
    events_poll_burst: Annotated[int, Whole(1, 1_000_000), "How many polls for events one client may make at once."] = (
        100
    )
    redelivery_after_sec: Annotated[
        int,
        Whole(0, 86_400),
        "After how long an event that was delivered and not acknowledged is delivered again; 0: at the next poll.",
    ] = 0
    redeliver_errored: Annotated[
        bool, YesOrNo(), "Deliver events again that a client could not use, without an operator's release."
    ] = False
    events_keep_acknowledged_days: Annotated[
        int, Whole(0, 3650), "How long acknowledged events are kept before they are evicted."
    ] = 30
    events_keep_audit_days: Annotated[
        int, Whole(0, 3650), "How long the record of who published, released or dropped events is kept; 0: for ever."
    ] = 365
    event_issuer: Annotated[
        str | None,
        Uri(),
        "The `iss` of event tokens; without it, the public address, or else where the server listens.",
    ] = None
    event_header_issuer: Annotated[
        str | None,
        Words(),
        "Open Banking's `iss` in the header of event tokens, as the trust anchor knows us; without it, the `iss`.",
    ] = None
    event_trust_anchor: Annotated[
        str, Words(), "Open Banking's `tan` in the header of event tokens: who vouches for the keys."
    ] = "openbanking.org.uk"
    event_signing_alg: Annotated[
        Literal["PS256", "ES256", "EdDSA", "RS256"],
        OneOf(ALGORITHMS),
        "What event tokens are signed with for clients that are registered without a wish of their own.",
    ] = "PS256"
    event_signing_processes: Annotated[
        int, Whole(0, 1024), "How many processes sign event tokens; 0: one for each core."
    ] = 0
    event_key_rotation_days: Annotated[
        int, Whole(0, 3650), "After how long an event signing key is followed by a new one; 0: never by itself."
    ] = 90
    event_key_lead_seconds: Annotated[
        int, Whole(0, 2_592_000), "How long a new event signing key is published before it signs."
    ] = 86_400
    event_key_overlap_days: Annotated[
        int, Whole(0, 3650), "How long an event signing key is published after another has taken over."
    ] = 30
    push_timeout_seconds: Annotated[
        float,
        Fraction(0.1, 300),
        "How long a receiver of pushed events may take, from its name's look-up to its answer.",
    ] = 10.0
    push_receivers_max: Annotated[int, Whole(1, 10_000), "How many receivers are pushed to at once."] = 32
    push_retry_base_seconds: Annotated[
        float, Fraction(0.01, 3600), "The wait after a push's first failure; it doubles with each further one."
    ] = 1.0
    push_retry_max_seconds: Annotated[float, Fraction(0.01, 86_400), "The longest wait between two pushes."] = 900.0
    push_attempts_max: Annotated[
        int, Whole(1, 1000), "After how many attempts an event is no longer pushed, and left to polling."
    ] = 20
    push_give_up_hours: Annotated[
        int, Whole(1, 8760), "After how long an event whose push fails is no longer pushed, and left to polling."
    ] = 24
    push_circuit_failures: Annotated[
        int, Whole(1, 1000), "After how many failures in a row a receiver's circuit is open."
    ] = 5
    push_circuit_seconds: Annotated[
        float, Fraction(0.01, 86_400), "How long at least a receiver whose circuit is open is left alone."
    ] = 30.0
    push_allowed: Annotated[
        Allowed, Destinations(), "Receivers that may be pushed to although their addresses are not public."
    ] = NOTHING_MORE
    push_ca: Annotated[
        Path | None, File(), "Authorities that receivers' certificates may lead to beside the system's, in PEM."
    ] = None
    push_certificate: Annotated[
        Path | None, File(), "The certificate that is shown to receivers who ask for one, in PEM."
    ] = None
    push_key: Annotated[
        Path | None, File(), "Its private key, in PEM; without it, looked for in the certificate's file."
    ] = None
    ssf_events: Annotated[
        EventTypeNames, EventTypes(), "The event types that receivers of shared signals are offered."
    ] = _SIGNALS
    ssf_default_subjects: Annotated[
        Literal["ALL", "NONE"],
        OneOf(("ALL", "NONE")),
        "Whom a new stream of shared signals follows until its receiver says otherwise.",
    ] = "ALL"
    ssf_verification_seconds: Annotated[
        int, Whole(0, 86_400), "How often at most a stream is verified at its receiver's request."
    ] = 60
    ssf_subjects_max: Annotated[
        int, Whole(1, 10_000_000), "How many subjects a stream of shared signals may name, added and removed ones."
    ] = 100_000
    connections_max: Annotated[
        int, Whole(1, 10_000_000), "How many connections are open at most; further ones are refused."
    ] = 20_000
    header_deadline_seconds: Annotated[
        float, Fraction(0.1, 3600), "How long a client may take to send a request's headers."
    ] = 10.0
    body_deadline_seconds: Annotated[
        float, Fraction(0.1, 3600), "How long a client may take to send a request's body."
    ] = 30.0
    keep_alive_seconds: Annotated[
        float, Fraction(0.1, 86_400), "How long an idle connection is kept for the client's next request."
    ] = 75.0
    body_bytes_max: Annotated[int, Whole(1024, 1_073_741_824), "How large a request's body may be."] = 1_048_576
    shutdown_seconds: Annotated[
        float, Fraction(0, 600), "How long requests in progress may take to finish when the server stops."
    ] = 1.5


def declarations() -> Iterator[Declaration]:
    hints = get_type_hints(Settings, include_extras=True)
    for each in dataclasses.fields(Settings):
        kind, meaning = hints[each.name].__metadata__
        # What is not to be seen when the settings are printed is a secret everywhere.
        yield Declaration(each.name, each.default, kind, meaning, secret=not each.repr)


DECLARED: dict[str, Declaration] = {declaration.name: declaration for declaration in declarations()}
