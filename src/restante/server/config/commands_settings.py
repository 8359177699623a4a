"""The settings of edge commands: leases, signatures, limits, approval and telemetry."""

from dataclasses import dataclass
from typing import Annotated

from restante.commands.audit.signed_heads import AnchorTarget
from restante.commands.dispatch.rate_limits import RateRules
from restante.server.config.protocol_setting_types import (
    AuditAnchor,
    CommandTypes,
    RateLimits,
)
from restante.server.config.setting_types import (
    Boolean,
    CommaList,
    Integer,
)

_RATES = RateRules()
_NO_TYPES: CommaList[str] = CommaList()


@dataclass(frozen=True, kw_only=True)
class CommandsSettings:
    enable_command_signature: Annotated[
        bool, Boolean(), "Sign the commands for each collector with the secret of that collector."
    ] = False
    require_ack_nonce: Annotated[
        bool, Boolean(), "Refuse ACKs without the nonce of their command, if commands are signed."
    ] = False
    require_ack_signature: Annotated[
        bool, Boolean(), "Refuse ACKs without a signature of the collector; collectors of the older API send none."
    ] = False
    command_lease_duration_sec: Annotated[
        int, Integer(1, 86_400), "The lease of a collector on a command, after which another collector may get it."
    ] = 60
    one_command_per_miner: Annotated[
        bool,
        Boolean(),
        "Dispatch a command for one miner only when no other command for that miner is leased.",
    ] = True
    max_command_retries: Annotated[
        int, Integer(0, 100), "How often a failed command is retried, unless the command itself sets a number."
    ] = 3
    default_retry_backoff_sec: Annotated[
        int, Integer(1, 86_400), "The wait before the first retry of a command; it doubles with each further retry."
    ] = 30
    command_rate_limits: Annotated[
        RateRules,
        RateLimits(),
        "The most commands of a type that a site gets within a sliding window.",
    ] = _RATES
    priority_ageing_seconds: Annotated[
        int,
        Integer(0, 86_400),
        "The waiting time that is worth one point of priority; 0: only the priority counts.",
    ] = 300
    commands_needing_approval: Annotated[
        CommaList[str],
        CommandTypes(),
        "The command types that a second person must approve. The first start stores them; then the stored policy "
        "counts.",
    ] = _NO_TYPES
    approval_from_miners: Annotated[
        int,
        Integer(0, 1_000_000),
        "The number of target miners from which a command needs approval, whatever its type; 0: never. The first start "
        "stores it; then the stored policy counts.",
    ] = 0
    secret_overlap_seconds: Annotated[
        int, Integer(0, 2_592_000), "How long the old secret of a collector still verifies ACKs after it was replaced."
    ] = 86_400
    telemetry_history_records: Annotated[
        int, Integer(1, 10_000), "The number of telemetry records kept for each miner."
    ] = 100
    telemetry_gap_seconds: Annotated[
        int,
        Integer(1, 86_400),
        "The gap between two records after which a rule's condition no longer counts as continuous.",
    ] = 300
    unknown_miners_max: Annotated[
        int, Integer(0, 100_000), "How many miners of a site may report before they are registered; 0: none."
    ] = 1000
    collector_bytes_per_hour: Annotated[
        int,
        Integer(0, 2**40),
        "The most bytes of ACK snapshots and safety events that one collector may send, per server; 0: no limit.",
    ] = 32 * 1024 * 1024
    collector_telemetry_bytes_per_minute: Annotated[
        int,
        Integer(0, 2**40),
        "The most bytes of telemetry, uncompressed, that one collector may send, per server; 0: no limit.",
    ] = 64 * 1024 * 1024
    collector_repeats_per_minute: Annotated[
        int,
        Integer(0, 1_000_000),
        "The most refused or repeated ACKs that one collector may send, per server; 0: no limit.",
    ] = 6000
    collector_parked_polls_max: Annotated[
        int, Integer(1, 100_000), "The most polls of one collector that wait at once; one more ends the oldest wait."
    ] = 8
    audit_heads_seconds: Annotated[
        int,
        Integer(1, 86_400),
        "How often the heads of changed audit chains are recorded in the main chain; also at a stop.",
    ] = 30
    audit_anchor: Annotated[
        AnchorTarget | None,
        AuditAnchor(),
        "Where signed heads of the audit trail are sent: the path of a file, `syslog`, or the URL of a webhook.",
    ] = None
    audit_anchor_seconds: Annotated[int, Integer(1, 2_592_000), "How often a signed head is sent to the anchor."] = 3600
    legacy_collector_api: Annotated[
        bool, Boolean(), "Serve the older API of collectors under /api/collector, with X-Collector-Key as the token."
    ] = True
