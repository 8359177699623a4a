"""The configured access to event polling: how clients connect, and what they must prove.

    mutual TLS (server or trusted proxy)   the server sees client certificates and binds tokens to them
    development                            plain HTTP on this machine only: client secrets, unbound tokens
    unprotected                            plain HTTP beyond this machine: the server issues no tokens

Invariant: the server never sends a secret or an unbound token over a network in plain text.
"""

from dataclasses import dataclass
from typing import Literal

TOKEN_PATH = "/token"  # noqa: S105 — a path, not a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    base_url: str  # of the server, from its settings: never from a request
    mtls_url: str | None  # for clients with certificates, if it differs from base_url
    is_development: bool
    is_protected: bool
    # Whether the server can see client certificates, and whether access tokens must be bound to one.
    has_certificates: bool
    is_binding_required: bool
    token_seconds: int
    assertion_seconds_max: int
    # What signs an assertion, and whether its audience may also be the token endpoint instead of the issuer.
    assertion_algorithms: tuple[str, ...]
    is_token_endpoint_audience: bool
    failures_per_minute: int
    # For the discovery document: where to poll, the most events per poll, the longest wait.
    events_path: str
    events_max: int
    events_wait_seconds: float
    # The algorithm for the events of a client that registered without one.
    set_signing_alg: Literal["PS256", "ES256", "EdDSA", "RS256"]

    def audiences(self) -> frozenset[str]:
        """Return the values that the `aud` claim of an assertion may have: the issuer, and the token endpoint."""
        if not self.is_token_endpoint_audience:
            return frozenset([self.base_url])
        bases = {self.base_url, self.mtls_url or self.base_url}
        return frozenset([*bases, *(base + TOKEN_PATH for base in bases)])

    def warnings(self) -> list[str]:
        """Return the warnings to log at the start if any client is registered."""
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
                "EVENT POLLING ISSUES NO TOKENS: they must be bound to certificates, and the server sees none. Set"
                " tls_client_ca or trusted_proxies, or bound_tokens to optional."
            ]
        return []


class TokenCounters:
    """Counts token requests by outcome."""

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
