import pytest

from restante.events.access import AccessOptions, TokenTotals


def test_an_assertion_may_be_addressed_to_issuer_or_endpoint() -> None:
    assert AccessOptions().audiences("https://a.example") == {"https://a.example", "https://a.example/token"}
    aliased = AccessOptions(mtls_url="https://mtls.a.example").audiences("https://a.example")
    assert aliased == {
        "https://a.example",
        "https://a.example/token",
        "https://mtls.a.example",
        "https://mtls.a.example/token",
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (AccessOptions(), "DEVELOPMENT"),
        (AccessOptions(is_development=False, is_protected=False), "REFUSED"),
        (AccessOptions(is_development=False, is_binding_required=True), "NO TOKENS"),
    ],
)
def test_what_must_be_known_is_said(options: AccessOptions, said: str) -> None:
    (warning,) = options.warnings()
    assert said in warning


def test_where_all_is_well_nothing_is_said() -> None:
    assert AccessOptions(is_development=False, is_binding_required=True, has_certificates=True).warnings() == []
    assert AccessOptions(is_development=False).warnings() == []


def test_counts_by_outcome() -> None:
    totals = TokenTotals()
    for outcome in ("granted", "granted", "invalid_client", "server_error"):
        totals.count(outcome)
    assert {name: count for name, count in totals.requests.items() if count} == {
        "granted": 2,
        "invalid_client": 1,
        "failed": 1,
    }
