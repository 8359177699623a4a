"""Callback URLs that are accepted, and all the forms that are refused."""

import pytest

from restante.core.events.callback_url import LENGTH_MAX, CallbackUrl, parse_callback_url

GOOD = {
    "https://tpp.example": CallbackUrl("tpp.example", 443, "/"),
    "HTTPS://TPP.Example./hook": CallbackUrl("tpp.example", 443, "/hook"),
    "https://tpp.example:8443/a/b?c=d&e=%20": CallbackUrl("tpp.example", 8443, "/a/b?c=d&e=%20"),
    "https://tpp.example?c=d": CallbackUrl("tpp.example", 443, "/?c=d"),
    "https://192.0.2.7/": CallbackUrl("192.0.2.7", 443, "/"),
    "https://[2001:DB8:0::1]:1/": CallbackUrl("2001:db8::1", 1, "/"),
}

BAD = {
    "empty": "",
    "http": "http://tpp.example/",
    "another scheme": "ftp://tpp.example/",
    "no scheme": "tpp.example/hook",
    "no host": "https:///hook",
    "a user": "https://user@tpp.example/",
    "a password": "https://user:secret@tpp.example/",
    "a host behind a host": "https://tpp.example\\@127.0.0.1/",
    "a backslash in the path": "https://tpp.example/a\\b",
    "a fragment": "https://tpp.example/#a",
    "a space": "https://tpp.example/a b",
    "a line feed": "https://tpp.example/a\nHost: other",
    "a line feed at the end": "https://tpp.example/\n",
    "a NUL": "https://tpp.example/\0",
    "not ASCII": "https://tpp.example/ü",
    "a host that is not ASCII": "https://tüpp.example/",
    "port 0": "https://tpp.example:0/",
    "a port too large": "https://tpp.example:65536/",
    "no port": "https://tpp.example:/",
    "a port that is no number": "https://tpp.example:x/",
    "a bracket left open": "https://[::1/",
    "no IPv6 address": "https://[1:2]/",
    "a zone": "https://[fe80::1%25eth0]/",
    "two dots": "https://tpp..example/",
    "a dot alone": "https://./",
    "a hyphen first": "https://-tpp.example/",
    "too long": "https://tpp.example/" + "a" * LENGTH_MAX,
}


@pytest.mark.parametrize("text", GOOD)
def test_valid_url_is_split_into_parts(text: str) -> None:
    assert parse_callback_url(text) == GOOD[text]


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_invalid_url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_callback_url(text)


def test_longest_url_is_accepted() -> None:
    text = "https://tpp.example/"
    assert parse_callback_url(text + "a" * (LENGTH_MAX - len(text))).host == "tpp.example"


@pytest.mark.parametrize(
    ("text", "authority"),
    [
        ("https://tpp.example/", "tpp.example"),
        ("https://tpp.example:443/", "tpp.example"),
        ("https://tpp.example:444/", "tpp.example:444"),
        ("https://[::1]:444/", "[::1]:444"),
    ],
)
def test_host_header_omits_default_port(text: str, authority: str) -> None:
    assert parse_callback_url(text).authority == authority
