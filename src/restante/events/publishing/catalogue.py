"""Event types of Shared Signals: CAEP 1.0 and RISC 1.0, which every stream supports by default, and the framework's own
two, which the server sends without a request."""

_CAEP = "https://schemas.openid.net/secevent/caep/event-type/"
_RISC = "https://schemas.openid.net/secevent/risc/event-type/"
_SSF = "https://schemas.openid.net/secevent/ssf/event-type/"

VERIFICATION = f"{_SSF}verification"
STREAM_UPDATED = f"{_SSF}stream-updated"

CAEP_EVENTS = tuple(
    _CAEP + name
    for name in (
        "session-revoked",
        "token-claims-change",
        "credential-change",
        "assurance-level-change",
        "device-compliance-change",
        "session-established",
        "session-presented",
        "risk-level-change",
    )
)
RISC_EVENTS = tuple(
    _RISC + name
    for name in (
        "account-credential-change-required",
        "account-purged",
        "account-disabled",
        "account-enabled",
        "identifier-changed",
        "identifier-recycled",
        "credential-compromise",
        "opt-in",
        "opt-out-initiated",
        "opt-out-cancelled",
        "opt-out-effective",
        "recovery-activated",
        "recovery-information-changed",
        "sessions-revoked",
    )
)
SUPPORTED_BY_DEFAULT = CAEP_EVENTS + RISC_EVENTS
