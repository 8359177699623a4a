"""URLs of Shared Signals that follow from the options."""

import pytest

from tests.events.default_options import shared_signals_options


@pytest.mark.parametrize(
    ("issuer", "paths"),
    [
        ("https://bank.example", ["/.well-known/ssf-configuration"]),
        ("https://bank.example/", ["/.well-known/ssf-configuration"]),
        ("https://bank.example/a/b/", ["/.well-known/ssf-configuration", "/.well-known/ssf-configuration/a/b"]),
    ],
)
def test_discovery_paths(issuer: str, paths: list[str]) -> None:
    assert shared_signals_options(issuer=issuer).discovery_paths() == paths


def test_each_stream_has_its_own_poll_url() -> None:
    options = shared_signals_options(base_url="https://bank.example")
    assert options.poll_url("one") == "https://bank.example/ssf/streams/one/poll"
    assert options.poll_url("one") != options.poll_url("other")
