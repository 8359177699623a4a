"""The page for clients' developers, `/developer`: everything the profiles oblige a bank to document, from the settings
in force. The same content, with the default settings, is docs/event-portal.md.

Said once, as rows of a table in sections; the page and the Markdown are two ways of writing them down.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from restante.core.errors import RestanteError
from restante.core.push_outcome import PushRules
from restante.events.poll import PollOptions
from restante.events.ssf_options import SignalsOptions
from restante.web.answer import Answer, html_answer
from restante.web.ask import Ask
from restante.web.origin import base_url_of
from restante.web.routes import Access, Route
from restante.web.templates import Templates

TAG = "pages"
TITLE = "Events for developers"
MARKDOWN_NOTE = (
    "What `/developer` shows, here with the default settings; a running server shows its own. This page is made from\n"
    "the same source, and a test compares them.\n"
)

_HERE = Path(__file__).parent
_templates = Templates(_HERE / "templates")
_STYLESHEET = (_HERE / "assets" / "portal.css").read_bytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalFacts:
    """What is in force. Without a public address, the one each request came to is shown."""

    public_url: str | None
    base: str
    poll: PollOptions
    keep_acknowledged_days: int
    token_seconds: int
    is_binding_required: bool
    push_rules: PushRules
    push_timeout_seconds: float
    signals: SignalsOptions


class Fact(NamedTuple):
    name: str
    value: str


class Section(NamedTuple):
    title: str
    facts: list[Fact]


def sections(facts: PortalFacts, url: str) -> list[Section]:
    """The whole page, for a server that is reached under this address."""
    makers: list[Callable[[PortalFacts, str], Section]] = [_access, _polling, _events, _push, _signals]
    return [make(facts, url) for make in makers]


def _access(facts: PortalFacts, url: str) -> Section:
    bound = "Bound to the client's TLS certificate (RFC 8705)" if facts.is_binding_required else "Not bound"
    return Section(
        "Access",
        [
            Fact("Token endpoint", f"{url}/token"),
            Fact("Discovery", f"{url}/.well-known/oauth-authorization-server"),
            Fact("Grant and scope", "client_credentials; eventpolling for events, ssf.read or ssf.manage for signals"),
            Fact("Access tokens", f"{bound}; valid for {_seconds(facts.token_seconds)}"),
        ],
    )


def _polling(facts: PortalFacts, url: str) -> Section:
    poll = facts.poll
    waits = poll.wait_seconds > 0
    long_poll = f"Supported, up to {_seconds(poll.wait_seconds)}" if waits else "Not supported: answers come at once"
    pace = "Poll again as soon as a long poll was answered" if waits else "Poll every few seconds"
    again = poll.inbox.redelivery_after_ms // 1000
    redelivered = f"after {_seconds(again)}" if again else "with the next poll"
    errored = "delivered again" if poll.inbox.redeliver_errored else "kept, and not delivered again until we release it"
    return Section(
        "Aggregated polling",
        [
            Fact("Endpoint", f"POST {url}{facts.base}/events"),
            Fact(
                "Polling interval",
                f"{pace}; at most {poll.rate_per_second:g} polls a second over time and {poll.burst} at once, "
                "beyond that 429 with Retry-After",
            ),
            Fact("Upper bound of maxEvents", f"{poll.events_max}; a larger value means {poll.events_max}"),
            Fact("Long polling", long_poll),
            Fact("Redelivery", f"What was delivered and not acknowledged comes again {redelivered}, the same bytes"),
            Fact("Negative acknowledgements", f"An event reported in setErrs is {errored}"),
            Fact("Retention", f"Until acknowledged; then evicted after {facts.keep_acknowledged_days} days"),
        ],
    )


def _events(_facts: PortalFacts, url: str) -> Section:
    return Section(
        "Event tokens",
        [
            Fact("Recycling of jti", "Never: an identifier is not used twice"),
            Fact("Algorithms", "PS256 unless agreed otherwise; ES256, EdDSA and RS256 for each client"),
            Fact("Keys (JWKS)", f"{url}/jwks.json; a new key is published before it signs, an old one after it signed"),
            Fact("Order", "Oldest first"),
        ],
    )


def _push(facts: PortalFacts, url: str) -> Section:
    rules = facts.push_rules
    most = f"{rules.backoff.attempts_max} attempts or {rules.give_up_seconds / 3600:g} hours at most"
    return Section(
        "Real time notification",
        [
            Fact("Subscriptions", f"{url}{facts.base}/event-subscriptions, one for each client"),
            Fact("Delivery", "POST application/jwt to the CallbackUrl; 202 acknowledges the event"),
            Fact("Time for an answer", _seconds(facts.push_timeout_seconds)),
            Fact(
                "Retries",
                f"Anything but 202: after {_seconds(rules.backoff.base_seconds)}, doubling up to "
                f"{_seconds(rules.backoff.max_seconds)}; {most}",
            ),
            Fact(
                "Circuit",
                f"After {rules.circuit_failures} failures in a row one event at a time is tried, at least "
                f"{_seconds(rules.circuit_seconds)} apart, until one is answered 202",
            ),
            Fact("Catching up", "What could not be pushed stays available to polling"),
            Fact("Callback addresses", "https, a certificate that holds, public addresses; redirects are not followed"),
        ],
    )


def _signals(facts: PortalFacts, url: str) -> Section:
    rules = facts.signals.rules
    return Section(
        "Shared signals",
        [
            Fact("Configuration", f"{url}/.well-known/ssf-configuration"),
            Fact("Delivery", "Poll (RFC 8936) and push (RFC 8935)"),
            Fact("Tokens", "RS256, typ secevent+jwt, one event each"),
            Fact("Subjects of a new stream", "All" if rules.all_subjects else "None until added"),
            Fact("Verification", f"Once every {_seconds(rules.verification_seconds)} at most"),
            Fact("Event types", f"{len(rules.events_supported)}, listed in the configuration"),
        ],
    )


def _seconds(seconds: float) -> str:
    if seconds >= 60 and seconds % 60 == 0:
        return "1 minute" if seconds == 60 else f"{seconds / 60:g} minutes"
    return "1 second" if seconds == 1 else f"{seconds:g} seconds"


def as_markdown(content: list[Section]) -> str:
    written = [f"# {TITLE}\n\n{MARKDOWN_NOTE}"]
    for section in content:
        rows = "".join(f"| {fact.name} | {fact.value} |\n" for fact in section.facts)
        written.append(f"\n## {section.title}\n\n| | |\n|---|---|\n{rows}")
    return "".join(written)


class PortalShape:
    """The page; an error is a line of text."""

    def success(self, value: Any, status: int = 200) -> Answer:
        return html_answer(str(value), status)

    def error(self, error: RestanteError) -> Answer:
        return Answer(error.status, ((b"content-type", b"text/plain; charset=utf-8"),), error.message.encode())


PORTAL = PortalShape()


class PortalRoutes:
    def __init__(self, facts: PortalFacts) -> None:
        self._facts = facts

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/developer", self.page, Access.open, "What clients' developers must know", PORTAL, TAG),
            Route("GET", "/assets/portal.css", self.stylesheet, Access.open, "What that page looks like", PORTAL, TAG),
        ]

    async def page(self, ask: Ask) -> Answer:
        """Intervals, limits, retries, retention, algorithms and addresses, as they are in force here."""
        url = base_url_of(ask.request, self._facts.public_url)
        content = sections(self._facts, url)
        return html_answer(_templates.render("portal.html", title=TITLE, sections=content))

    async def stylesheet(self, _ask: Ask) -> Answer:
        headers = ((b"content-type", b"text/css; charset=utf-8"), (b"cache-control", b"public, max-age=3600"))
        return Answer(200, headers, _STYLESHEET)
