import ipaddress
from pathlib import Path
from typing import Any

import pytest

from restante.commands.approval import ApprovalRules
from restante.commands.parts import CommandsOptions
from restante.commands.rate_windows import RateLimit, RateRules
from restante.events.access import AccessOptions
from restante.events.key_rotation import RotationOptions
from restante.events.signer import SignerOptions
from restante.server.access_setting_kinds import Networks
from restante.server.command_setting_kinds import TypeNames
from restante.server.options import access_options, commands_options, event_issuer, events_options, token_options
from restante.server.setting_kinds import Address
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


PLAIN = Address("127.0.0.1", 8080)
EVERYWHERE = Address("0.0.0.0", 8080)
FILES: dict[str, Any] = {"tls_certificate": Path("a"), "tls_key": Path("b")}
PROXIES = Networks([ipaddress.ip_network("10.0.0.0/8")])


def test_access_that_is_not_set_is_development_on_this_machine() -> None:
    assert access_options(Settings()) == AccessOptions()


@pytest.mark.parametrize(
    ("settings", "is_development", "is_protected", "is_binding_required", "has_certificates"),
    [
        (Settings(listen=PLAIN), True, True, False, False),
        (Settings(listen=Address("::1", 1)), True, True, False, False),
        (Settings(listen=Address("localhost", 1)), True, True, False, False),
        (Settings(listen=PLAIN, bound_tokens="required"), True, True, True, False),
        (Settings(listen=PLAIN, public_url="http://127.0.0.1:1"), True, True, False, False),
        (Settings(listen=PLAIN, public_url="https://a.example"), False, False, True, False),
        (Settings(listen=EVERYWHERE), False, False, True, False),
        (Settings(listen=EVERYWHERE, bound_tokens="optional"), False, False, False, False),
        (Settings(listen=PLAIN, trusted_proxies=PROXIES), False, True, True, True),
        (Settings(listen=EVERYWHERE, **FILES), False, True, True, False),
        (Settings(listen=PLAIN, tls_client_ca=Path("c"), **FILES), False, True, True, True),
        (Settings(listen=PLAIN, bound_tokens="optional", **FILES), False, True, False, False),
    ],
)
def test_how_clients_reach_us(
    settings: Settings, is_development: bool, is_protected: bool, is_binding_required: bool, has_certificates: bool
) -> None:
    options = access_options(settings)
    assert options.is_development == is_development
    assert options.is_protected == is_protected
    assert options.is_binding_required == is_binding_required
    assert options.has_certificates == has_certificates


def test_every_setting_of_access_arrives() -> None:
    settings = Settings(
        public_url="https://a.example",
        mtls_url="https://b.example",
        client_token_seconds=1,
        client_assertion_seconds_max=2,
        token_failures_per_minute=3,
    )
    options = access_options(settings)
    assert (options.public_url, options.mtls_url) == ("https://a.example", "https://b.example")
    assert (options.token_seconds, options.assertion_seconds_max, options.failures_per_minute) == (1, 2, 3)


def test_every_setting_of_event_tokens_arrives() -> None:
    settings = Settings(
        event_issuer="https://bank.example",
        event_header_issuer="bank-org",
        event_trust_anchor="anchor.example",
        event_signing_alg="ES256",
        event_signing_processes=3,
        event_key_rotation_days=4,
        event_key_lead_seconds=5,
        event_key_overlap_days=6,
    )
    options = events_options(settings, is_shared=True).tokens
    assert options.signer == SignerOptions(
        issuer="https://bank.example", header_issuer="bank-org", trust_anchor="anchor.example"
    )
    assert (options.default_alg, options.processes, options.is_shared) == ("ES256", 3, True)
    assert options.rotation == RotationOptions(days=4, lead_seconds=5, overlap_seconds=6 * 86_400)
    assert access_options(settings).set_signing_alg == "ES256"


def test_who_issues_tokens_where_nothing_is_said() -> None:
    assert event_issuer(Settings(public_url="https://a.example")) == "https://a.example"
    assert event_issuer(Settings(listen=PLAIN)) == f"http://{PLAIN}"
    assert token_options(Settings(listen=PLAIN)).signer.header_issuer == f"http://{PLAIN}"


def test_how_long_what_is_done_with_is_kept_arrives() -> None:
    options = events_options(Settings(events_keep_acknowledged_days=7, events_keep_audit_days=8))
    assert (options.keep_acknowledged_days, options.keep_audit_days) == (7, 8)
