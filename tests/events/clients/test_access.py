import pytest

from restante.events.clients.access import AccessOptions, TokenCounters
from tests.events.default_options import access_options


def test_audiences_are_the_issuer_and_the_endpoint() -> None:
    base_url = "https://a.example"
    assert access_options(base_url=base_url).audiences() == {"https://a.example", "https://a.example/token"}
    aliased = access_options(base_url=base_url, mtls_url="https://mtls.a.example").audiences()
    assert aliased == {
        "https://a.example",
        "https://a.example/token",
        "https://mtls.a.example",
        "https://mtls.a.example/token",
    }


def test_audience_is_the_issuer_alone_by_setting() -> None:
    options = access_options(
        base_url="https://a.example", mtls_url="https://mtls.a.example", is_token_endpoint_audience=False
    )
    assert options.audiences() == {"https://a.example"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (access_options(), "DEVELOPMENT"),
        (access_options(is_development=False, is_protected=False), "REFUSED"),
        (access_options(is_development=False, is_binding_required=True), "NO TOKENS"),
    ],
)
def test_weak_access_has_a_warning(options: AccessOptions, text: str) -> None:
    (warning,) = options.warnings()
    assert text in warning


def test_protected_access_has_no_warning() -> None:
    assert access_options(is_development=False, is_binding_required=True, has_certificates=True).warnings() == []
    assert access_options(is_development=False).warnings() == []


def test_requests_are_counted_by_outcome() -> None:
    counters = TokenCounters()
    for outcome in ("granted", "granted", "invalid_client", "server_error"):
        counters.count(outcome)
    assert {name: count for name, count in counters.requests.items() if count} == {
        "granted": 2,
        "invalid_client": 1,
        "failed": 1,
    }
