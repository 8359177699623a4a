"""The settings of device updates: tokens of devices and people, polls, the signal log and the outbox."""

from dataclasses import dataclass
from typing import Annotated

from restante.identity.jwt.issuers import ExternalIssuer
from restante.server.config.setting_types import (
    Boolean,
    Integer,
    Issuers,
    Number,
)
from restante.server.config.url_setting_types import (
    ExternalAddresses,
    OutboxUrls,
)

_NO_OUTBOXES = ExternalAddresses()


@dataclass(frozen=True, kw_only=True)
class UpdatesSettings:
    access_token_seconds: Annotated[int, Integer(1, 604_800), "The lifetime of a device's access token."] = 3600
    refresh_token_days: Annotated[int, Integer(1, 3650), "The lifetime of a device's refresh token."] = 30
    device_codes_per_address_max: Annotated[
        int,
        Integer(1, 1_000_000),
        "The most devices of one address (IPv6: of a /64 network) that may wait for approval at once.",
    ] = 500
    device_codes_max: Annotated[int, Integer(1, 1_000_000), "The most devices that may wait for approval at once."] = (
        10_000
    )
    certificate_renew_percent: Annotated[
        int,
        Integer(0, 95),
        "The share of its life after which a certificate is renewed by itself, in percent; 0: never.",
    ] = 66
    crl_hours: Annotated[
        int,
        Integer(2, 8760),
        "How long a revocation list of an authority is valid; it is signed again after half of that.",
    ] = 168
    session_hours: Annotated[int, Integer(1, 8760), "The lifetime of a person's session."] = 12
    console_confirm_minutes: Annotated[
        int,
        Integer(0, 1440),
        "How long a person's password counts in the console before it is needed again for a final action.",
    ] = 10
    issuers: Annotated[
        tuple[ExternalIssuer, ...],
        Issuers(),
        "External issuers whose device tokens are also accepted; in the environment and as a flag: JSON.",
    ] = ()
    token_cache_max: Annotated[int, Integer(0, 100_000_000), "The most verified tokens that are cached in memory."] = (
        1_000_000
    )
    tail_cache_max: Annotated[
        int, Integer(0, 100_000_000), "The most devices whose newest signal is cached in memory."
    ] = 2_000_000
    poll_interval_seconds: Annotated[
        int,
        Integer(1, 86_400),
        "The poll interval that devices get; the server spreads the devices over it.",
    ] = 300
    boost_poll_interval_seconds: Annotated[
        int, Integer(1, 86_400), "The poll interval that a device gets for a while after a signal."
    ] = 15
    boost_window_seconds: Annotated[
        int, Integer(0, 86_400), "How long after a signal a device gets the shorter interval."
    ] = 600
    poll_rate_per_second: Annotated[
        float, Number(0.001, 100_000), "The sustained rate of polls that one device may make."
    ] = 1.0
    poll_burst: Annotated[int, Integer(1, 1_000_000), "The most polls that one device may make at once."] = 20
    device_parked_polls_max: Annotated[
        int, Integer(1, 100_000), "The most polls of one device that wait at once; one more ends the oldest wait."
    ] = 8
    retry_after_spread_seconds: Annotated[
        int, Integer(0, 3600), "The interval over which the retries of refused callers are spread."
    ] = 5
    coalesce_milliseconds: Annotated[
        int,
        Integer(0, 10_000),
        "How long a woken poll waits for more signals before it is answered. 0: it gets those published together.",
    ] = 0
    log_keep_signals: Annotated[
        int, Integer(1, 1_000_000), "The number of signals kept for each device; older ones are removed."
    ] = 1000
    direct_signals: Annotated[
        bool, Boolean(), "Write signals directly to the devices' logs instead of through the outbox."
    ] = False
    signal_aliases: Annotated[
        bool,
        Boolean(),
        "Also send `cert.updated` and `cert.unassigned`, the signals that newer agents act on.",
    ] = True
    outbox: Annotated[
        ExternalAddresses,
        OutboxUrls(),
        "External databases whose outbox tables are also dispatched; ?name=… gives one a name.",
    ] = _NO_OUTBOXES
    outbox_interval_seconds: Annotated[
        float,
        Number(0.01, 3600),
        "The longest interval at which an idle dispatcher scans an outbox; shorter soon after rows.",
    ] = 5.0
    outbox_batch: Annotated[int, Integer(1, 10_000), "The most outbox rows that the dispatcher claims at once."] = 100
    outbox_lease_seconds: Annotated[
        float,
        Number(0.1, 3600),
        "The lease on claimed outbox rows, after which another dispatcher may claim them.",
    ] = 30.0
    outbox_retry_base_seconds: Annotated[
        float,
        Number(0.01, 86_400),
        "The wait after the first failure of a row; it doubles with each further failure.",
    ] = 1.0
    outbox_retry_max_seconds: Annotated[
        float, Number(0.01, 86_400), "The longest wait between two attempts at a row."
    ] = 300.0
    outbox_attempts_max: Annotated[
        int, Integer(1, 1000), "The number of failed attempts after which a row becomes FAILED."
    ] = 10
    outbox_keep_delivered_days: Annotated[
        int, Integer(0, 3650), "How long delivered rows stay in the outbox for inspection."
    ] = 7
