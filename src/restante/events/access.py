"""Access to event polling, as it is configured: how clients reach us, and what is asked of them.

    mutual TLS, by us or by a trusted proxy   certificates are seen: tokens are bound to them
    development                               plain HTTP on this machine only: secrets, tokens bound to nothing
    unprotected                               plain HTTP beyond this machine: no token is given out

Must always hold: a secret or an unbound token never crosses a network in the open by our doing.
"""

from dataclasses import dataclass
from typing import Literal

TOKEN_PATH = "/token"  # noqa: S105 — a path, not a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    public_url: str | None = None
    mtls_url: str | None = None  # where clients with certificates are to call, if not there
    is_development: bool = True
    is_protected: bool = True
    # Certificates can be seen at all, and whether access tokens must be bound to one.
    has_certificates: bool = False
    is_binding_required: bool = False
    token_seconds: int = 600
    assertion_seconds_max: int = 300
    failures_per_minute: int = 10
    # Told in the discovery document: where to poll, how many events at once, how long a poll waits.
    events_path: str = "/open-banking/v4.0/events"
    events_max: int = 100
    events_wait_seconds: float = 30.0
    # What a client's events are signed with, where it was registered without a wish of its own.
    set_signing_alg: Literal["PS256", "ES256", "EdDSA", "RS256"] = "PS256"

    def audiences(self, base_url: str) -> frozenset[str]:
        """What an assertion for the token endpoint may be addressed to."""
        bases = {base_url, self.mtls_url or base_url}
        return frozenset([*bases, *(base + TOKEN_PATH for base in bases)])

    def warnings(self) -> list[str]:
        """What whoever has clients must know at the start."""
        if not self.is_protected:
            return [
                "EVENT POLLING IS REFUSED: clients would reach it in plain HTTP from beyond this machine. Set"
                " tls_certificate, tls_key and tls_client_ca, or trusted_proxies if a proxy terminates TLS."
            ]
        if self.is_development:
            return [
                "EVENT POLLING IS IN DEVELOPMENT MODE: plain HTTP on this machine only, client_secret_basic allowed,"
                " access tokens bound to no certificate. Not for anything real."
            ]
        if self.is_binding_required and not self.has_certificates:
            return [
                "EVENT POLLING GIVES NO TOKENS: they must be bound to certificates, and none can be seen. Set"
                " tls_client_ca or trusted_proxies, or bound_tokens to optional."
            ]
        return []


class TokenTotals:
    """Token requests so far, by outcome."""

    OUTCOMES = (
        "granted",
        "invalid_client",
        "invalid_request",
        "invalid_scope",
        "unsupported_grant_type",
        "rate_limited",
        "failed",
    )

    def __init__(self) -> None:
        self.requests = dict.fromkeys(self.OUTCOMES, 0)

    def count(self, outcome: str) -> None:
        self.requests[outcome if outcome in self.requests else "failed"] += 1
