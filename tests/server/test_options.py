from restante.commands.approval import ApprovalRules
from restante.commands.parts import CommandsOptions
from restante.commands.rate_windows import RateLimit, RateRules
from restante.server.command_setting_kinds import TypeNames
from restante.server.options import commands_options
from restante.server.settings import Settings


def test_what_is_not_set_is_the_protocols_own_default() -> None:
    assert commands_options(Settings()) == CommandsOptions()


def test_every_setting_arrives() -> None:
    rates = RateRules({"MINER_RESTART": RateLimit(1, 2)})
    settings = Settings(
        enable_command_signature=True,
        require_ack_nonce=True,
        command_lease_duration_sec=1,
        max_command_retries=2,
        default_retry_backoff_sec=3,
        command_rate_limits=rates,
        priority_ageing_seconds=4,
        commands_needing_approval=TypeNames(["POOL_SET"]),
        approval_from_miners=5,
        secret_overlap_seconds=6,
        telemetry_history_records=7,
        telemetry_gap_seconds=8,
        body_bytes_max=2048,
    )
    assert commands_options(settings) == CommandsOptions(
        is_signed=True,
        is_ack_nonce_required=True,
        lease_seconds=1,
        max_retries=2,
        retry_backoff_seconds=3,
        rates=rates,
        priority_ageing_seconds=4,
        approval=ApprovalRules(frozenset({"POOL_SET"}), 5),
        secret_overlap_seconds=6,
        telemetry_history_records=7,
        telemetry_gap_seconds=8,
        body_bytes_max=2048,
    )
