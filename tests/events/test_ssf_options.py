"""Addresses of shared signals that follow from the settings."""

import pytest

from restante.events.ssf_options import SignalsOptions


@pytest.mark.parametrize(
    ("issuer", "paths"),
    [
        ("https://bank.example", ["/.well-known/ssf-configuration"]),
        ("https://bank.example/", ["/.well-known/ssf-configuration"]),
        ("https://bank.example/a/b/", ["/.well-known/ssf-configuration", "/.well-known/ssf-configuration/a/b"]),
    ],
)
def test_where_the_configuration_is_found(issuer: str, paths: list[str]) -> None:
    assert SignalsOptions(issuer=issuer).discovery_paths() == paths


def test_each_stream_is_polled_at_an_address_of_its_own() -> None:
    options = SignalsOptions(base_url="https://bank.example")
    assert options.poll_url("one") == "https://bank.example/ssf/streams/one/poll"
    assert options.poll_url("one") != options.poll_url("other")
