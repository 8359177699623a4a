"""The settings of event polling: client access, polls, signing, push and Shared Signals."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from restante.core.events.addresses import PUBLIC_ONLY, AllowedTargets
from restante.events.publishing.catalogue import SUPPORTED_BY_DEFAULT
from restante.events.signing.jws import ALGORITHMS
from restante.identity.clients.scopes import POLLING_SCOPES, SUBSCRIPTION_SCOPES
from restante.identity.jwt.issuers import ExternalIssuer
from restante.server.config.protocol_setting_types import (
    AUTO,
    AssertionAlgorithms,
    EventTypes,
    FinancialId,
    PushTargets,
    Scopes,
    Uri,
)
from restante.server.config.setting_types import (
    BasePath,
    Boolean,
    Choice,
    CommaList,
    FilePath,
    Integer,
    Issuers,
    Number,
    Text,
)

_SSF_EVENTS = CommaList(SUPPORTED_BY_DEFAULT)
_POLLING_SCOPES = CommaList(POLLING_SCOPES)
_SUBSCRIPTION_SCOPES = CommaList(SUBSCRIPTION_SCOPES)


@dataclass(frozen=True, kw_only=True)
class EventsSettings:
    bound_tokens: Annotated[
        Literal["auto", "required", "optional"],
        Choice(("auto", "required", "optional")),
        "Whether access tokens of clients must be bound to a certificate; auto: except in development.",
    ] = "auto"
    client_token_seconds: Annotated[int, Integer(1, 86_400), "The lifetime of a client's access token."] = 600
    client_assertion_seconds_max: Annotated[
        int, Integer(1, 3600), "The longest lifetime of a client's signed assertion."
    ] = 3600
    client_assertion_audience: Annotated[
        Literal["auto", "issuer", "issuer-or-token-endpoint"],
        Choice(("auto", "issuer", "issuer-or-token-endpoint")),
        "What the `aud` of a client's assertion may be: the public URL, or also the token endpoint, which many "
        "libraries name; auto: the public URL; both if only this machine can reach the server.",
    ] = "auto"
    client_assertion_algorithms: Annotated[
        CommaList[str],
        AssertionAlgorithms(),
        "The accepted algorithms of clients' assertions. FAPI 2.0 excludes RS256, which many libraries use by default; "
        "auto: PS256, ES256 and EdDSA; RS256, too, if only this machine can reach the server.",
    ] = AUTO
    token_failures_per_minute: Annotated[
        int,
        Integer(1, 100_000),
        "The most failed authentications per minute at /token, per certificate or, without one, per address.",
    ] = 10
    authorization_servers: Annotated[
        tuple[ExternalIssuer, ...],
        Issuers(),
        "External authorization servers whose access tokens clients may use, each with its audience; as `issuers`.",
    ] = ()
    events_base: Annotated[
        str, BasePath(), "The path below which version 4.0 of Open Banking's events API is served; empty: nowhere."
    ] = "/open-banking/v4.0"
    events_base_v3: Annotated[
        str, BasePath(), "The path below which version 3.1 of Open Banking's events API is served; empty: nowhere."
    ] = "/open-banking/v3.1"
    events_root_version: Annotated[
        Literal["v4.0", "v3.1"],
        Choice(("v4.0", "v3.1")),
        "The version of Open Banking's events API at the bare paths /events and /event-subscriptions.",
    ] = "v4.0"
    event_polling_scopes: Annotated[
        CommaList[str], Scopes(), "The scopes that open event polling; an access token needs one of them."
    ] = _POLLING_SCOPES
    event_subscription_scopes: Annotated[
        CommaList[str], Scopes(), "The scopes that open event subscriptions; an access token needs one of them."
    ] = _SUBSCRIPTION_SCOPES
    events_max: Annotated[int, Integer(1, 10_000), "The most events in one poll response."] = 100
    events_answer_bytes_max: Annotated[
        int,
        Integer(1, 1_073_741_824),
        "The most bytes of event tokens in one poll response; the first event always fits.",
    ] = 4_194_304
    events_wait_seconds: Annotated[
        int, Integer(0, 3600), "How long a poll for events waits for an event; 0: not at all."
    ] = 30
    events_lenient: Annotated[
        bool, Boolean(), "Ignore unknown fields in the body of a poll instead of refusing it."
    ] = False
    events_poll_rate_per_second: Annotated[
        float, Number(0.001, 100_000), "The sustained rate of event polls that one client may make."
    ] = 50.0
    events_poll_burst: Annotated[
        int, Integer(1, 1_000_000), "The most event polls that one client may make at once."
    ] = 100
    client_parked_polls_max: Annotated[
        int,
        Integer(1, 100_000),
        "The most polls of one client that wait at once, for events and for Shared Signals each; one more ends the "
        "oldest wait.",
    ] = 16
    redelivery_after_sec: Annotated[
        int,
        Integer(0, 86_400),
        "How long after its delivery an unacknowledged event is delivered again; 0: at the next poll.",
    ] = 0
    redeliver_errored: Annotated[bool, Boolean(), "Deliver errored events again without release by an operator."] = (
        False
    )
    events_keep_acknowledged_days: Annotated[int, Integer(0, 3650), "How long acknowledged events are kept."] = 30
    events_keep_audit_days: Annotated[
        int, Integer(0, 3650), "How long the record of published, released and dropped events is kept; 0: forever."
    ] = 365
    event_issuer: Annotated[
        str | None,
        Uri(),
        "The `iss` of event tokens. Default: the public URL, or else the listen address.",
    ] = None
    bank_name: Annotated[str | None, Text(), "The bank's name on the developers' portal, /developer."] = None
    developer_test_events: Annotated[
        bool, Boolean(), "Let a client that is signed in to the developers' portal send itself a test event."
    ] = True
    event_header_issuer: Annotated[
        str | None,
        Text(),
        "Open Banking's `iss` in the header of event tokens and message signatures. Default: the `iss`.",
    ] = None
    event_trust_anchor: Annotated[
        str, Text(), "Open Banking's `tan` in the header of event tokens and message signatures: the trust anchor."
    ] = "openbanking.org.uk"
    message_signatures: Annotated[
        Literal["off", "if-present", "required"],
        Choice(("off", "if-present", "required")),
        "Whether the `x-jws-signature` of event subscriptions is verified; if-present: where a client sends one.",
    ] = "if-present"
    event_signing_alg: Annotated[
        Literal["PS256", "ES256", "EdDSA", "RS256"],
        Choice(ALGORITHMS),
        "The algorithm that signs event tokens for clients registered without an algorithm.",
    ] = "PS256"
    event_signing_processes: Annotated[
        int, Integer(0, 1024), "The number of processes that sign event tokens; 0: one per core."
    ] = 0
    event_key_rotation_days: Annotated[
        int, Integer(0, 3650), "The age at which an event signing key is replaced; 0: never automatically."
    ] = 90
    event_key_lead_seconds: Annotated[
        int, Integer(0, 2_592_000), "How long a new event signing key is published before it signs."
    ] = 86_400
    event_key_overlap_days: Annotated[
        int, Integer(0, 3650), "How long an event signing key stays published after another one signs."
    ] = 30
    push_timeout_seconds: Annotated[
        float,
        Number(0.1, 300),
        "The most time for one push to a receiver, from the name lookup to the response.",
    ] = 10.0
    push_receivers_max: Annotated[
        int, Integer(1, 10_000), "The most receivers that are pushed to at the same time."
    ] = 32
    push_retry_base_seconds: Annotated[
        float, Number(0.01, 3600), "The wait after the first failure of a push; it doubles with each further failure."
    ] = 1.0
    push_retry_max_seconds: Annotated[
        float, Number(0.01, 86_400), "The longest wait between two attempts at a push."
    ] = 900.0
    push_attempts_max: Annotated[
        int, Integer(1, 1000), "The number of attempts after which an event is no longer pushed, and only polled."
    ] = 20
    push_give_up_hours: Annotated[
        int, Integer(1, 8760), "The time of failing after which an event is no longer pushed, and only polled."
    ] = 24
    push_circuit_failures: Annotated[
        int, Integer(1, 1000), "The number of consecutive failures that open the circuit of a receiver."
    ] = 5
    push_circuit_seconds: Annotated[
        float, Number(0.01, 86_400), "The shortest time that the circuit of a receiver stays open."
    ] = 30.0
    push_allowed: Annotated[
        AllowedTargets,
        PushTargets(),
        "Hosts of receivers and of clients' keys that may be called although their addresses are not public.",
    ] = PUBLIC_ONLY
    push_ca: Annotated[
        Path | None,
        FilePath(),
        "Certificate authorities trusted for receivers and for clients' keys, in addition to the system's, in PEM.",
    ] = None
    push_financial_id: Annotated[
        str | None,
        FinancialId(),
        "The bank's id, sent as `x-fapi-financial-id` with Real Time Notifications. Default: it is not sent.",
    ] = None
    push_certificate: Annotated[
        Path | None, FilePath(), "The client certificate for receivers that request one, in PEM."
    ] = None
    push_key: Annotated[
        Path | None, FilePath(), "The private key of that certificate, in PEM. Default: in the file of the certificate."
    ] = None
    ssf_events: Annotated[
        CommaList[str], EventTypes(), "The event types that are offered to receivers of Shared Signals."
    ] = _SSF_EVENTS
    ssf_default_subjects: Annotated[
        Literal["ALL", "NONE"],
        Choice(("ALL", "NONE")),
        "The subjects of a new stream of Shared Signals until its receiver changes them.",
    ] = "ALL"
    ssf_verification_seconds: Annotated[
        int,
        Integer(0, 86_400),
        "The shortest interval between two verifications of a stream requested by its receiver.",
    ] = 60
    ssf_subjects_max: Annotated[
        int, Integer(1, 10_000_000), "The most subjects of a stream of Shared Signals, added and removed ones together."
    ] = 100_000
