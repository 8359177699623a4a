"""The content of the page for developers of clients, `/developer`: everything the profiles require a bank to document.

The page shows the settings in force; docs/event-portal.md has the same content with the default settings. Both are
rendered from the same sections.
"""

from collections.abc import Callable
from dataclasses import dataclass

from restante.core.events.push_outcome import PushRules
from restante.events.api_versions import ApiPaths
from restante.events.inbox.poll import PollOptions
from restante.events.ssf.options import SharedSignalsOptions

TITLE = "Events for developers"
MARKDOWN_NOTE = (
    "The content of `/developer` with the default settings; a running server shows its own settings. A test compares\n"
    "this page with the code that renders it.\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalFacts:
    """The settings that the page shows."""

    base_url: str
    # The address for clients with certificates.
    mtls_url: str
    bank_name: str | None
    issuer: str
    # Whether clients may authenticate with a secret, and whether the server sees client certificates.
    is_development: bool
    has_certificates: bool
    has_test_events: bool
    paths: ApiPaths
    polling_scopes: tuple[str, ...]
    subscription_scopes: tuple[str, ...]
    message_signatures: str
    poll: PollOptions
    keep_acknowledged_days: int
    token_seconds: int
    is_binding_required: bool
    push_rules: PushRules
    push_timeout_seconds: float
    shared_signals: SharedSignalsOptions


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    facts: list[Fact]


def sections(facts: PortalFacts, url: str) -> list[Section]:
    """Return the content of the page for a server with this base URL."""
    builders: list[Callable[[PortalFacts, str], Section]] = [_access, _polling, _events, _push, _shared_signals]
    return [build(facts, url) for build in builders]


def _access(facts: PortalFacts, url: str) -> Section:
    scopes = (
        f"{_any_of(facts.polling_scopes)} for polling, {_any_of(facts.subscription_scopes)} for subscriptions, "
        "ssf.read or ssf.manage for Shared Signals"
    )
    bound = "Bound to the client's TLS certificate (RFC 8705)" if facts.is_binding_required else "Not bound"
    return Section(
        "Access",
        [
            Fact("Token endpoint", f"{url}/token"),
            Fact("Discovery", f"{url}/.well-known/oauth-authorization-server"),
            Fact("Grant and scope", f"client_credentials; {scopes}"),
            Fact("Access tokens", f"{bound}; valid for {_seconds(facts.token_seconds)}"),
        ],
    )


def _polling(facts: PortalFacts, url: str) -> Section:
    poll = facts.poll
    waits = poll.wait_seconds > 0
    long_poll = f"Supported, up to {_seconds(poll.wait_seconds)}" if waits else "Not supported: responses come at once"
    pace = "Poll again after the response to a long poll" if waits else "Poll every few seconds"
    again = poll.inbox.redelivery_after_ms // 1000
    redelivered = f"after {_seconds(again)}" if again else "with the next poll"
    kept = "kept, and not delivered again until an operator releases it"
    errored = "delivered again" if poll.inbox.redeliver_errored else kept
    return Section(
        "Aggregated polling",
        [
            *(
                Fact(f"Endpoint, version {base.version.removeprefix('v')}", f"POST {url}{base.path}/events")
                for base in facts.paths.named()
            ),
            Fact(
                "Polling interval",
                f"{pace}; at most {poll.rate_per_second:g} polls a second over time and {poll.burst} at once, "
                "beyond that 429 with Retry-After",
            ),
            Fact("Upper bound of maxEvents", f"{poll.events_max}; a larger value means {poll.events_max}"),
            Fact("Long polling", long_poll),
            Fact(
                "Redelivery", f"An event that is not acknowledged is delivered again {redelivered}, with the same bytes"
            ),
            Fact("Negative acknowledgements", f"An event reported in setErrs is {errored}"),
            Fact("Retention", f"Until acknowledged; then evicted after {facts.keep_acknowledged_days} days"),
        ],
    )


def _events(_facts: PortalFacts, url: str) -> Section:
    return Section(
        "Event tokens",
        [
            Fact("Recycling of jti", "Never: an identifier is used once"),
            Fact("Algorithms", "PS256 unless agreed otherwise; ES256, EdDSA and RS256 for each client"),
            Fact("Keys (JWKS)", f"{url}/jwks.json; a key is published before it signs and after it stops signing"),
            Fact(
                "Keys of one algorithm or client",
                f"{url}/jwks.json?alg=PS256, {url}/clients/CLIENT_ID/jwks.json: for libraries that refuse a JWKS with "
                "key types they do not know",
            ),
            Fact("Order", "Oldest first"),
        ],
    )


def _push(facts: PortalFacts, url: str) -> Section:
    rules = facts.push_rules
    most = f"{rules.backoff.attempts_max} attempts or {rules.give_up_seconds / 3600:g} hours at most"
    return Section(
        "Real time notification",
        [
            *(
                Fact(
                    f"Subscriptions, version {base.version.removeprefix('v')}", f"{url}{base.path}/event-subscriptions"
                )
                for base in facts.paths.named()
            ),
            Fact("Number of subscriptions", "One for each client, whatever the version"),
            Fact("Message signatures", f"Responses are signed with PS256; of requests: {facts.message_signatures}"),
            Fact("Delivery", "POST application/jwt to the CallbackUrl; 202 acknowledges the event"),
            Fact("Response timeout", _seconds(facts.push_timeout_seconds)),
            Fact(
                "Retries",
                f"After any other response: {_seconds(rules.backoff.base_seconds)}, doubling up to "
                f"{_seconds(rules.backoff.max_seconds)}; {most}",
            ),
            Fact(
                "Circuit",
                f"After {rules.circuit_failures} failures in a row, one event at a time is tried, at least "
                f"{_seconds(rules.circuit_seconds)} apart, until a response is 202",
            ),
            Fact("Catching up", "Events that could not be pushed stay available to polling"),
            Fact("Callback addresses", "https, a valid certificate, public addresses; redirects are not followed"),
        ],
    )


def _shared_signals(facts: PortalFacts, url: str) -> Section:
    rules = facts.shared_signals.rules
    return Section(
        "Shared Signals",
        [
            Fact("Configuration", f"{url}/.well-known/ssf-configuration"),
            Fact("Delivery", "Poll (RFC 8936) and push (RFC 8935)"),
            Fact("Tokens", "RS256, typ secevent+jwt, one event each"),
            Fact("Subjects of a new stream", "All" if rules.all_subjects else "None until added"),
            Fact("Verification", f"Once every {_seconds(rules.verification_seconds)} at most"),
            Fact("Event types", f"{len(rules.events_supported)}, listed in the configuration"),
        ],
    )


def _any_of(scopes: tuple[str, ...]) -> str:
    return " or ".join(scopes)


def _seconds(seconds: float) -> str:
    if seconds >= 60 and seconds % 60 == 0:
        return "1 minute" if seconds == 60 else f"{seconds / 60:g} minutes"
    return "1 second" if seconds == 1 else f"{seconds:g} seconds"


def as_markdown(content: list[Section]) -> str:
    parts = [f"# {TITLE}\n\n{MARKDOWN_NOTE}"]
    for section in content:
        rows = "".join(f"| {fact.name} | {fact.value} |\n" for fact in section.facts)
        parts.append(f"\n## {section.title}\n\n| | |\n|---|---|\n{rows}")
    return "".join(parts)
