"""Conversion of the settings into the options of each component. Components do not know the settings."""

from pathlib import Path

from restante.commands.audit.heads_recorder import HeadsOptions
from restante.commands.collector_budgets import BudgetOptions
from restante.commands.component import CommandsOptions
from restante.commands.lifecycle.approval import ApprovalRules
from restante.core.backoff import RETRY_SECONDS_MAX, Backoff, PollBackoff
from restante.core.events.push_outcome import PushRules
from restante.delivery.outbox.dispatcher import DispatcherOptions
from restante.events.api_versions import ApiPaths
from restante.events.clients.access import AccessOptions
from restante.events.clients.authentication import client_keys
from restante.events.component import EventsOptions
from restante.events.inbox.inbox import InboxOptions
from restante.events.inbox.poll import PollOptions as EventPollOptions
from restante.events.outgoing_http import OutgoingOptions
from restante.events.portal.content import PortalFacts
from restante.events.push.pusher import PushOptions
from restante.events.signing.component import SigningOptions
from restante.events.signing.key_rotation import RotationOptions
from restante.events.signing.message_signatures import MessageSignatureOptions
from restante.events.signing.signer import SignerOptions
from restante.events.ssf.options import SharedSignalsOptions
from restante.events.ssf.streams import StreamRules
from restante.identity.devices.device_codes import DeviceCodeLimits
from restante.server.config.protocol_setting_types import AUTO
from restante.server.config.settings import Settings
from restante.updates.component import UpdatesOptions
from restante.updates.pki.issuing import IssueRules
from restante.updates.polling.poll import PollOptions
from restante.web.access import SCOPES_NEEDED
from restante.web.routes import Access


def poll_options(settings: Settings) -> PollOptions:
    return PollOptions(
        interval_seconds=settings.poll_interval_seconds,
        boost_interval_seconds=settings.boost_poll_interval_seconds,
        boost_window_seconds=settings.boost_window_seconds,
        rate_per_second=settings.poll_rate_per_second,
        burst=settings.poll_burst,
        retry_after_spread_seconds=settings.retry_after_spread_seconds,
        coalesce_seconds=settings.coalesce_milliseconds / 1000,
        recipients_max=settings.tail_cache_max,
        parked_max=settings.device_parked_polls_max,
    )


def updates_options(settings: Settings) -> UpdatesOptions:
    return UpdatesOptions(
        poll=poll_options(settings),
        base_url=base_url(settings),
        device_codes=DeviceCodeLimits(settings.device_codes_per_address_max, settings.device_codes_max),
        refresh_token_days=settings.refresh_token_days,
        session_hours=settings.session_hours,
        signal_aliases=settings.signal_aliases,
        issuing=IssueRules(settings.public_url, settings.certificate_renew_percent),
        crl_hours=settings.crl_hours,
    )


def dispatcher_options(settings: Settings) -> DispatcherOptions:
    return DispatcherOptions(
        batch=settings.outbox_batch,
        lease_seconds=settings.outbox_lease_seconds,
        backoff=Backoff(
            settings.outbox_retry_base_seconds,
            settings.outbox_retry_max_seconds,
            settings.outbox_attempts_max,
        ),
    )


def own_outbox_backoff(settings: Settings) -> PollBackoff:
    """The interval of the server's own outbox: writers wake the dispatcher, so the scan is only a safety net."""
    seconds = settings.outbox_interval_seconds
    return PollBackoff(idle_seconds=seconds, idle_seconds_max=seconds, retry_seconds_max=seconds)


def external_outbox_backoff(settings: Settings) -> PollBackoff:
    seconds = settings.outbox_interval_seconds
    return PollBackoff(idle_seconds_max=seconds, retry_seconds_max=max(seconds, RETRY_SECONDS_MAX))


def commands_options(settings: Settings, *, is_shared: bool = False) -> CommandsOptions:
    return CommandsOptions(
        is_signed=settings.enable_command_signature,
        is_ack_nonce_required=settings.require_ack_nonce,
        is_ack_signature_required=settings.require_ack_signature,
        lease_seconds=settings.command_lease_duration_sec,
        is_one_lease_per_miner=settings.one_command_per_miner,
        max_retries=settings.max_command_retries,
        retry_backoff_seconds=settings.default_retry_backoff_sec,
        rates=settings.command_rate_limits,
        priority_ageing_seconds=settings.priority_ageing_seconds,
        approval=ApprovalRules(frozenset(settings.commands_needing_approval), settings.approval_from_miners or None),
        secret_overlap_seconds=settings.secret_overlap_seconds,
        telemetry_history_records=settings.telemetry_history_records,
        telemetry_gap_seconds=settings.telemetry_gap_seconds,
        unknown_miners_max=settings.unknown_miners_max,
        budgets=BudgetOptions(
            bytes_per_hour=settings.collector_bytes_per_hour,
            telemetry_bytes_per_minute=settings.collector_telemetry_bytes_per_minute,
            repeats_per_minute=settings.collector_repeats_per_minute,
        ),
        parked_polls_max=settings.collector_parked_polls_max,
        is_legacy_api_served=settings.legacy_collector_api,
        is_shared=is_shared,
        body_bytes_max=settings.body_bytes_max,
        heads=HeadsOptions(
            interval_seconds=settings.audit_heads_seconds,
            folder=settings.data,
            anchor=settings.audit_anchor,
            anchor_seconds=settings.audit_anchor_seconds,
        ),
    )


def access_options(settings: Settings) -> AccessOptions:
    has_tls = settings.tls_certificate is not None
    is_public = (settings.public_url or "").startswith("https://")
    # Only programs on this machine reach it, with or without TLS.
    is_local = settings.listen.is_loopback and not settings.trusted_proxies and not is_public
    is_plain = not has_tls and not settings.trusted_proxies
    is_development = is_plain and is_local
    return AccessOptions(
        base_url=base_url(settings),
        mtls_url=settings.mtls_url,
        is_development=is_development,
        is_protected=is_development or not is_plain,
        has_certificates=settings.tls_client_ca is not None or bool(settings.trusted_proxies),
        is_binding_required=settings.bound_tokens == "required"
        or (settings.bound_tokens == "auto" and not is_development),
        token_seconds=settings.client_token_seconds,
        assertion_seconds_max=settings.client_assertion_seconds_max,
        assertion_algorithms=_assertion_algorithms(settings, is_local=is_local),
        is_token_endpoint_audience=settings.client_assertion_audience == "issuer-or-token-endpoint"
        or (settings.client_assertion_audience == "auto" and is_local),
        failures_per_minute=settings.token_failures_per_minute,
        events_path=events_paths(settings).preferred + "/events",
        events_max=settings.events_max,
        events_wait_seconds=settings.events_wait_seconds,
        set_signing_alg=settings.event_signing_alg,
    )


def _assertion_algorithms(settings: Settings, *, is_local: bool) -> tuple[str, ...]:
    if settings.client_assertion_algorithms != AUTO:
        return settings.client_assertion_algorithms
    return tuple(alg for alg in client_keys.ALGORITHMS if is_local or alg != "RS256")


def signing_options(settings: Settings, *, is_shared: bool = False) -> SigningOptions:
    issuer = event_issuer(settings)
    header_issuer, trust_anchor = settings.event_header_issuer or issuer, settings.event_trust_anchor
    return SigningOptions(
        signer=SignerOptions(issuer=issuer, header_issuer=header_issuer, trust_anchor=trust_anchor),
        messages=MessageSignatureOptions(
            requests=settings.message_signatures, issuer=header_issuer, trust_anchor=trust_anchor
        ),
        rotation=RotationOptions(
            days=settings.event_key_rotation_days,
            lead_seconds=settings.event_key_lead_seconds,
            overlap_seconds=settings.event_key_overlap_days * 86_400,
        ),
        default_alg=settings.event_signing_alg,
        processes=settings.event_signing_processes,
        is_shared=is_shared,
    )


def base_url(settings: Settings) -> str:
    """The URL of the server in issuers, audiences, metadata and links: never taken from a request."""
    scheme = "http" if settings.tls_certificate is None else "https"
    return (settings.public_url or f"{scheme}://{settings.listen}").rstrip("/")


def event_issuer(settings: Settings) -> str:
    """The issuer of event tokens."""
    return settings.event_issuer or base_url(settings)


def events_paths(settings: Settings) -> ApiPaths:
    return ApiPaths(v4=settings.events_base, v3=settings.events_base_v3, root_version=settings.events_root_version)


def scopes_needed(settings: Settings) -> dict[Access, tuple[str, ...]]:
    """The scopes that open the routes of clients, by their access."""
    return {
        **SCOPES_NEEDED,
        Access.client: settings.event_polling_scopes,
        Access.subscriber: settings.event_subscription_scopes,
    }


def events_options(settings: Settings) -> EventsOptions:
    return EventsOptions(
        paths=events_paths(settings),
        scopes=settings.event_polling_scopes,
        keep_acknowledged_days=settings.events_keep_acknowledged_days,
        keep_audit_days=settings.events_keep_audit_days,
        poll=EventPollOptions(
            inbox=InboxOptions(
                redelivery_after_ms=settings.redelivery_after_sec * 1000,
                redeliver_errored=settings.redeliver_errored,
                response_bytes_max=settings.events_answer_bytes_max,
            ),
            events_max=settings.events_max,
            wait_seconds=settings.events_wait_seconds,
            is_lenient=settings.events_lenient,
            rate_per_second=settings.events_poll_rate_per_second,
            burst=settings.events_poll_burst,
            parked_max=settings.client_parked_polls_max,
            retry_after_spread_seconds=settings.retry_after_spread_seconds,
        ),
    )


def push_options(settings: Settings) -> PushOptions:
    def text(path: Path | None) -> str | None:
        return None if path is None else str(path)

    rules = PushRules(
        Backoff(settings.push_retry_base_seconds, settings.push_retry_max_seconds, settings.push_attempts_max),
        give_up_seconds=settings.push_give_up_hours * 3600,
        circuit_failures=settings.push_circuit_failures,
        circuit_seconds=settings.push_circuit_seconds,
    )
    client = OutgoingOptions(
        timeout_seconds=settings.push_timeout_seconds,
        allowed=settings.push_allowed,
        ca_file=text(settings.push_ca),
        certificate_file=text(settings.push_certificate),
        key_file=text(settings.push_key),
    )
    return PushOptions(client, rules, settings.push_receivers_max, settings.push_financial_id)


def shared_signals_options(settings: Settings) -> SharedSignalsOptions:
    rules = StreamRules(
        tuple(settings.ssf_events),
        settings.ssf_default_subjects == "ALL",
        settings.ssf_verification_seconds,
        settings.ssf_subjects_max,
    )
    return SharedSignalsOptions(
        issuer=event_issuer(settings),
        base_url=base_url(settings),
        rules=rules,
        has_certificates=access_options(settings).has_certificates,
    )


def portal_facts(settings: Settings) -> PortalFacts:
    events, access, push = events_options(settings), access_options(settings), push_options(settings)
    return PortalFacts(
        base_url=base_url(settings),
        mtls_url=access.mtls_url or base_url(settings),
        bank_name=settings.bank_name,
        issuer=event_issuer(settings),
        is_development=access.is_development,
        has_certificates=access.has_certificates,
        has_test_events=settings.developer_test_events,
        paths=events.paths,
        polling_scopes=events.scopes,
        subscription_scopes=settings.event_subscription_scopes,
        message_signatures=settings.message_signatures,
        poll=events.poll,
        keep_acknowledged_days=events.keep_acknowledged_days,
        token_seconds=access.token_seconds,
        is_binding_required=access.is_binding_required,
        push_rules=push.rules,
        push_timeout_seconds=push.client.timeout_seconds,
        shared_signals=shared_signals_options(settings),
    )
