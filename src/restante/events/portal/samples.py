"""Samples for developers of clients, with the addresses of this server: they run as they are.

Secrets and tokens are in files or on standard input: other users of a machine can read the command line of a process.
"""

import json
from dataclasses import dataclass

from restante.events.portal.content import PortalFacts

TEST_EVENT_TYPE = "urn:restante:events:test"
_EXAMPLE_TYPE = "urn:uk:org:openbanking:events:consent-authorization-revoked"


@dataclass(frozen=True, slots=True)
class Sample:
    title: str
    explanation: str
    language: str
    text: str


def samples(facts: PortalFacts) -> list[Sample]:
    return [
        *_token_samples(facts),
        _poll_sample(facts),
        _acknowledge_sample(facts),
        _python_sample(facts),
        _event(facts),
    ]


def _token_samples(facts: PortalFacts) -> list[Sample]:
    found: list[Sample] = []
    if facts.has_certificates:
        found.append(
            Sample(
                "Get an access token with a certificate",
                "The token is bound to the certificate: send it with every request.",
                "bash",
                "umask 077\n"
                f"curl -sS --cert client.crt --key client.key {facts.mtls_url}/token \\\n"
                '  -d grant_type=client_credentials -d client_id="$CLIENT_ID" |\n'
                "  jq -r '\"Authorization: Bearer \" + .access_token' > authorization",
            )
        )
    if facts.is_development:
        found.append(
            Sample(
                "Get an access token with a secret",
                "This server is for development: in production a client has a certificate or a key.",
                "bash",
                "umask 077\n"
                'printf \'user = "%s:%s"\\n\' "$CLIENT_ID" "$CLIENT_SECRET" |\n'
                f"  curl -sS -K - {facts.base_url}/token -d grant_type=client_credentials |\n"
                "  jq -r '\"Authorization: Bearer \" + .access_token' > authorization",
            )
        )
    return found


def _poll_sample(facts: PortalFacts) -> Sample:
    waits = facts.poll.wait_seconds > 0
    explanation = (
        f"The response comes with the first event, or empty after {facts.poll.wait_seconds:g} seconds."
        if waits
        else "The response comes at once."
    )
    return Sample(
        "Poll, and read what the events say",
        f"{explanation} The second part of a token holds its claims, in base64url.",
        "bash",
        f"curl -sS{_certificate(facts)} {_events_url(facts)} \\\n"
        "  -H @authorization -H 'Content-Type: application/json' \\\n"
        "  -d '{\"maxEvents\": 10}' > polled.json\n"
        'jq -c \'.sets[] | split(".")[1] | gsub("-"; "+") | gsub("_"; "/") | @base64d | fromjson\' polled.json',
    )


def _acknowledge_sample(facts: PortalFacts) -> Sample:
    return Sample(
        "Acknowledge what was polled",
        "An event is delivered until it is acknowledged. First verify it and store it, then acknowledge it.",
        "bash",
        "jq -c '{returnImmediately: true, ack: (.sets | keys)}' polled.json |\n"
        f"  curl -sS{_certificate(facts)} {_events_url(facts)} \\\n"
        "    -H @authorization -H 'Content-Type: application/json' -d @-",
    )


def _python_sample(facts: PortalFacts) -> Sample:
    return Sample(
        "Receive events in Python",
        "The package restante-client verifies, stores and acknowledges. The client is registered with its public key.",
        "python",
        "from pathlib import Path\n"
        "\n"
        "from restante_client import BlockingEventReceiver, PrivateKeyJwt\n"
        "\n"
        'credentials = PrivateKeyJwt("CLIENT_ID", Path("key.pem").read_bytes(), "PS256")\n'
        f'with BlockingEventReceiver("{facts.base_url}", credentials, Path("state")) as receiver:\n'
        "    receiver.run(lambda event: print(event.claims))",
    )


def _event(facts: PortalFacts) -> Sample:
    claims = {
        "iss": facts.issuer,
        "iat": 1800000000,
        "jti": "b460a07c-4962-43d1-85ee-9dc10fbb8f6c",
        "sub": "https://bank.example/consents/88379",
        "aud": "CLIENT_ID",
        "txn": "dfc51628-3479-4b81-ad60-210b43d02306",
        "toe": 1799999999,
        "events": {_EXAMPLE_TYPE: {"reason": "by the customer"}},
    }
    return Sample(
        "The claims of an event",
        "The jti identifies the token, the txn the event: tokens of one event for several clients share it.",
        "json",
        json.dumps(claims, indent=2),
    )


def _certificate(facts: PortalFacts) -> str:
    return " --cert client.crt --key client.key" if facts.is_binding_required else ""


def _events_url(facts: PortalFacts) -> str:
    return f"{facts.mtls_url if facts.is_binding_required else facts.base_url}/events"
