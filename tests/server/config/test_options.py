import ipaddress
from pathlib import Path
from typing import Any

import pytest

from restante.commands.audit.heads_recorder import HeadsOptions
from restante.commands.audit.signed_heads import AnchorTarget
from restante.commands.collector_budgets import BudgetOptions
from restante.commands.component import CommandsOptions
from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.commands.lifecycle.approval import ApprovalRules
from restante.events.clients.access import AccessOptions
from restante.events.signing.key_rotation import RotationOptions
from restante.events.signing.signer import SignerOptions
from restante.server.config.options import (
    access_options,
    commands_options,
    event_issuer,
    events_options,
    signing_options,
)
from restante.server.config.setting_types import Address, CommaList
from restante.server.config.settings import Settings


def test_command_settings_are_passed_on() -> None:
    rates = RateRules({"MINER_RESTART": RateLimit(1, 2)})
    settings = Settings(
        enable_command_signature=True,
        require_ack_nonce=True,
        require_ack_signature=True,
        command_lease_duration_sec=1,
        one_command_per_miner=False,
        max_command_retries=2,
        default_retry_backoff_sec=3,
        command_rate_limits=rates,
        priority_ageing_seconds=4,
        commands_needing_approval=CommaList(["POOL_SET"]),
        approval_from_miners=5,
        secret_overlap_seconds=6,
        telemetry_history_records=7,
        telemetry_gap_seconds=8,
        unknown_miners_max=9,
        collector_bytes_per_hour=10,
        collector_telemetry_bytes_per_minute=11,
        collector_repeats_per_minute=12,
        collector_parked_polls_max=10,
        legacy_collector_api=False,
        body_bytes_max=2048,
        data=Path("folder"),
        audit_heads_seconds=10,
        audit_anchor=AnchorTarget("syslog"),
        audit_anchor_seconds=11,
    )
    assert commands_options(settings) == CommandsOptions(
        is_signed=True,
        is_ack_nonce_required=True,
        is_ack_signature_required=True,
        lease_seconds=1,
        is_one_lease_per_miner=False,
        max_retries=2,
        retry_backoff_seconds=3,
        rates=rates,
        priority_ageing_seconds=4,
        approval=ApprovalRules(frozenset({"POOL_SET"}), 5),
        secret_overlap_seconds=6,
        telemetry_history_records=7,
        telemetry_gap_seconds=8,
        unknown_miners_max=9,
        budgets=BudgetOptions(bytes_per_hour=10, telemetry_bytes_per_minute=11, repeats_per_minute=12),
        parked_polls_max=10,
        is_legacy_api_served=False,
        body_bytes_max=2048,
        heads=HeadsOptions(
            interval_seconds=10, folder=Path("folder"), anchor=AnchorTarget("syslog"), anchor_seconds=11
        ),
    )


LOOPBACK = Address("127.0.0.1", 8080)
ANY_ADDRESS = Address("0.0.0.0", 8080)
FILES: dict[str, Any] = {"tls_certificate": Path("a"), "tls_key": Path("b")}
PROXIES = CommaList([ipaddress.ip_network("10.0.0.0/8")])


def test_access_options_of_default_settings() -> None:
    assert access_options(Settings()) == AccessOptions(
        base_url="http://127.0.0.1:8080",
        mtls_url=None,
        is_development=True,
        is_protected=True,
        has_certificates=False,
        is_binding_required=False,
        token_seconds=600,
        assertion_seconds_max=3600,
        assertion_algorithms=("PS256", "ES256", "EdDSA", "RS256"),
        is_token_endpoint_audience=True,
        failures_per_minute=10,
        events_path="/open-banking/v4.0/events",
        events_max=100,
        events_wait_seconds=30.0,
        set_signing_alg="PS256",
    )


@pytest.mark.parametrize(
    ("settings", "is_development", "is_protected", "is_binding_required", "has_certificates"),
    [
        (Settings(listen=LOOPBACK), True, True, False, False),
        (Settings(listen=Address("::1", 1)), True, True, False, False),
        (Settings(listen=Address("localhost", 1)), True, True, False, False),
        (Settings(listen=LOOPBACK, bound_tokens="required"), True, True, True, False),
        (Settings(listen=LOOPBACK, public_url="http://127.0.0.1:1"), True, True, False, False),
        (Settings(listen=LOOPBACK, public_url="https://a.example"), False, False, True, False),
        (Settings(listen=ANY_ADDRESS), False, False, True, False),
        (Settings(listen=ANY_ADDRESS, bound_tokens="optional"), False, False, False, False),
        (Settings(listen=LOOPBACK, trusted_proxies=PROXIES), False, True, True, True),
        (Settings(listen=ANY_ADDRESS, **FILES), False, True, True, False),
        (Settings(listen=LOOPBACK, tls_client_ca=Path("c"), **FILES), False, True, True, True),
        (Settings(listen=LOOPBACK, bound_tokens="optional", **FILES), False, True, False, False),
    ],
)
def test_development_protection_and_binding_follow_from_settings(
    settings: Settings, is_development: bool, is_protected: bool, is_binding_required: bool, has_certificates: bool
) -> None:
    options = access_options(settings)
    assert options.is_development == is_development
    assert options.is_protected == is_protected
    assert options.is_binding_required == is_binding_required
    assert options.has_certificates == has_certificates


@pytest.mark.parametrize(
    ("settings", "is_local"),
    [
        (Settings(), True),
        (Settings(listen=LOOPBACK, public_url="http://127.0.0.1:1"), True),
        (Settings(listen=LOOPBACK, tls_client_ca=Path("c"), **FILES), True),
        (Settings(listen=LOOPBACK, public_url="https://a.example"), False),
        (Settings(listen=LOOPBACK, trusted_proxies=PROXIES), False),
        (Settings(listen=ANY_ADDRESS, **FILES), False),
    ],
)
def test_server_that_others_reach_accepts_assertions_as_fapi_says(settings: Settings, is_local: bool) -> None:
    options = access_options(settings)
    assert ("RS256" in options.assertion_algorithms) == is_local
    assert options.assertion_algorithms[:3] == ("PS256", "ES256", "EdDSA")
    assert options.is_token_endpoint_audience == is_local


def test_audience_and_algorithms_of_libraries_are_accepted_by_setting() -> None:
    settings = Settings(
        public_url="https://a.example",
        client_assertion_audience="issuer-or-token-endpoint",
        client_assertion_algorithms=CommaList(["PS256", "RS256"]),
    )
    options = access_options(settings)
    assert options.audiences() == {"https://a.example", "https://a.example/token"}
    assert options.assertion_algorithms == ("PS256", "RS256")


def test_access_settings_are_passed_on() -> None:
    settings = Settings(
        public_url="https://a.example",
        mtls_url="https://b.example",
        client_token_seconds=1,
        client_assertion_seconds_max=2,
        token_failures_per_minute=3,
        client_assertion_audience="issuer",
        client_assertion_algorithms=CommaList(["RS256"]),
    )
    options = access_options(settings)
    assert options.assertion_algorithms == ("RS256",)
    assert not options.is_token_endpoint_audience
    assert (options.base_url, options.mtls_url) == ("https://a.example", "https://b.example")
    assert (options.token_seconds, options.assertion_seconds_max, options.failures_per_minute) == (1, 2, 3)


def test_event_token_settings_are_passed_on() -> None:
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
    options = signing_options(settings, is_shared=True)
    assert options.signer == SignerOptions(
        issuer="https://bank.example", header_issuer="bank-org", trust_anchor="anchor.example"
    )
    assert (options.default_alg, options.processes, options.is_shared) == ("ES256", 3, True)
    assert options.rotation == RotationOptions(days=4, lead_seconds=5, overlap_seconds=6 * 86_400)
    assert access_options(settings).set_signing_alg == "ES256"


def test_default_issuer_is_public_url_or_listen_address() -> None:
    assert event_issuer(Settings(public_url="https://a.example")) == "https://a.example"
    assert event_issuer(Settings(listen=LOOPBACK)) == f"http://{LOOPBACK}"
    assert signing_options(Settings(listen=LOOPBACK)).signer.header_issuer == f"http://{LOOPBACK}"


def test_retention_settings_are_passed_on() -> None:
    options = events_options(Settings(events_keep_acknowledged_days=7, events_keep_audit_days=8))
    assert (options.keep_acknowledged_days, options.keep_audit_days) == (7, 8)
