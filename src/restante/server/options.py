"""Settings, as the options of the parts they are for. The parts know nothing of settings."""

import ipaddress
from pathlib import Path

from restante.commands.approval import ApprovalRules
from restante.commands.parts import CommandsOptions
from restante.core.backoff import Backoff
from restante.core.pace import AWAY_SECONDS_MAX, Pace
from restante.core.push_outcome import PushRules
from restante.delivery.dispatcher import DispatcherOptions
from restante.events.access import AccessOptions
from restante.events.inbox import InboxOptions
from restante.events.key_rotation import RotationOptions
from restante.events.parts import EventsOptions
from restante.events.poll import PollOptions as EventPollOptions
from restante.events.portal import PortalFacts
from restante.events.push import PushOptions
from restante.events.receiver_client import ClientOptions
from restante.events.signer import SignerOptions
from restante.events.ssf_options import SignalsOptions
from restante.events.streams import StreamRules
from restante.events.token_parts import TokenOptions
from restante.server.settings import Settings
from restante.updates.poll import PollOptions


def poll_options(settings: Settings) -> PollOptions:
    return PollOptions(
        interval_seconds=settings.poll_interval_seconds,
        rollout_interval_seconds=settings.rollout_poll_interval_seconds,
        rollout_window_seconds=settings.rollout_window_seconds,
        rate_per_second=settings.poll_rate_per_second,
        burst=settings.poll_burst,
        retry_after_spread_seconds=settings.retry_after_spread_seconds,
        coalesce_seconds=settings.coalesce_milliseconds / 1000,
        recipients_max=settings.tail_cache_max,
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


def own_outbox_pace(settings: Settings) -> Pace:
    """Who writes to the server's own outbox rings; looking unasked is for what nobody rang for."""
    seconds = settings.outbox_interval_seconds
    return Pace(idle_seconds=seconds, idle_seconds_max=seconds, away_seconds_max=seconds)


def outside_outbox_pace(settings: Settings) -> Pace:
    seconds = settings.outbox_interval_seconds
    return Pace(idle_seconds_max=seconds, away_seconds_max=max(seconds, AWAY_SECONDS_MAX))


def commands_options(settings: Settings, *, is_shared: bool = False) -> CommandsOptions:
    return CommandsOptions(
        is_signed=settings.enable_command_signature,
        is_ack_nonce_required=settings.require_ack_nonce,
        lease_seconds=settings.command_lease_duration_sec,
        max_retries=settings.max_command_retries,
        retry_backoff_seconds=settings.default_retry_backoff_sec,
        rates=settings.command_rate_limits,
        priority_ageing_seconds=settings.priority_ageing_seconds,
        approval=ApprovalRules(frozenset(settings.commands_needing_approval), settings.approval_from_miners or None),
        secret_overlap_seconds=settings.secret_overlap_seconds,
        telemetry_history_records=settings.telemetry_history_records,
        telemetry_gap_seconds=settings.telemetry_gap_seconds,
        is_shared=is_shared,
        body_bytes_max=settings.body_bytes_max,
    )


def access_options(settings: Settings) -> AccessOptions:
    has_tls = settings.tls_certificate is not None
    is_public = (settings.public_url or "").startswith("https://")
    is_plain = not has_tls and not settings.trusted_proxies
    is_development = is_plain and is_loopback(settings.listen.host) and not is_public
    return AccessOptions(
        public_url=settings.public_url,
        mtls_url=settings.mtls_url,
        is_development=is_development,
        is_protected=is_development or not is_plain,
        has_certificates=settings.tls_client_ca is not None or bool(settings.trusted_proxies),
        is_binding_required=settings.bound_tokens == "required"
        or (settings.bound_tokens == "auto" and not is_development),
        token_seconds=settings.client_token_seconds,
        assertion_seconds_max=settings.client_assertion_seconds_max,
        failures_per_minute=settings.token_failures_per_minute,
        events_path=settings.events_base + "/events",
        events_max=settings.events_max,
        events_wait_seconds=settings.events_wait_seconds,
        set_signing_alg=settings.event_signing_alg,
    )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def token_options(settings: Settings, *, is_shared: bool = False) -> TokenOptions:
    issuer = event_issuer(settings)
    return TokenOptions(
        signer=SignerOptions(
            issuer=issuer,
            header_issuer=settings.event_header_issuer or issuer,
            trust_anchor=settings.event_trust_anchor,
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


def event_issuer(settings: Settings) -> str:
    """Who issues event tokens."""
    scheme = "http" if settings.tls_certificate is None else "https"
    return settings.event_issuer or settings.public_url or f"{scheme}://{settings.listen}"


def events_options(settings: Settings, *, is_shared: bool = False) -> EventsOptions:
    return EventsOptions(
        tokens=token_options(settings, is_shared=is_shared),
        base=settings.events_base,
        keep_acknowledged_days=settings.events_keep_acknowledged_days,
        keep_audit_days=settings.events_keep_audit_days,
        poll=EventPollOptions(
            inbox=InboxOptions(
                redelivery_after_ms=settings.redelivery_after_sec * 1000,
                redeliver_errored=settings.redeliver_errored,
                answer_bytes_max=settings.events_answer_bytes_max,
            ),
            events_max=settings.events_max,
            wait_seconds=settings.events_wait_seconds,
            is_lenient=settings.events_lenient,
            rate_per_second=settings.events_poll_rate_per_second,
            burst=settings.events_poll_burst,
            retry_after_spread_seconds=settings.retry_after_spread_seconds,
        ),
    )


def push_options(settings: Settings) -> PushOptions:
    def named(path: Path | None) -> str | None:
        return None if path is None else str(path)

    rules = PushRules(
        Backoff(settings.push_retry_base_seconds, settings.push_retry_max_seconds, settings.push_attempts_max),
        give_up_seconds=settings.push_give_up_hours * 3600,
        circuit_failures=settings.push_circuit_failures,
        circuit_seconds=settings.push_circuit_seconds,
    )
    client = ClientOptions(
        timeout_seconds=settings.push_timeout_seconds,
        allowed=settings.push_allowed,
        ca_file=named(settings.push_ca),
        certificate_file=named(settings.push_certificate),
        key_file=named(settings.push_key),
    )
    return PushOptions(client, rules, settings.push_receivers_max)


def signals_options(settings: Settings) -> SignalsOptions:
    scheme = "http" if settings.tls_certificate is None else "https"
    base_url = settings.public_url or f"{scheme}://{settings.listen}"
    rules = StreamRules(
        tuple(settings.ssf_events),
        settings.ssf_default_subjects == "ALL",
        settings.ssf_verification_seconds,
        settings.ssf_subjects_max,
    )
    return SignalsOptions(issuer=event_issuer(settings), base_url=base_url, rules=rules)


def portal_facts(settings: Settings) -> PortalFacts:
    events, access, push = events_options(settings), access_options(settings), push_options(settings)
    return PortalFacts(
        public_url=settings.public_url,
        base=events.base,
        poll=events.poll,
        keep_acknowledged_days=events.keep_acknowledged_days,
        token_seconds=access.token_seconds,
        is_binding_required=access.is_binding_required,
        push_rules=push.rules,
        push_timeout_seconds=push.client.timeout_seconds,
        signals=signals_options(settings),
    )
