"""The address of a sender behind proxies: read from the end of the header, and only if a trusted proxy sent it."""

import ipaddress

import pytest
from starlette.requests import Request

from restante.web.client_cert import ClientCertificates
from restante.web.origin import ForwardedHeader, Senders

IS_TRUSTED = ClientCertificates([ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8")]).is_trusted
PROXY, STRANGER, SENDER = "10.0.0.1", "198.51.100.66", "203.0.113.9"


def address(header: ForwardedHeader, *lines: tuple[str, str], peer: str | None = PROXY) -> str:
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in lines]
    client = None if peer is None else (peer, 1)
    request = Request({"type": "http", "headers": headers, "client": client})
    return Senders(IS_TRUSTED, header).address_of(request)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (SENDER, SENDER),
        (f"{STRANGER}, {SENDER}", SENDER),
        (f"{STRANGER}, {SENDER}, 10.0.0.2, fd00::7", SENDER),
        (f"10.0.0.9, {SENDER}, 10.0.0.2", SENDER),
        (f"{SENDER}:4711", SENDER),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),
        (f"{STRANGER}, unknown", PROXY),
        (f"{STRANGER}, unknown, 10.0.0.2", "10.0.0.2"),
        (f"{STRANGER}, 203.0.113.9 evil", PROXY),
        (f" , {SENDER} , ", SENDER),
        ("", PROXY),
    ],
)
def test_last_address_that_is_no_proxy_is_the_sender(value: str, expected: str) -> None:
    assert address("x-forwarded-for", ("X-Forwarded-For", value)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (f"for={SENDER}", SENDER),
        (f'For="{SENDER}:80";proto=https;by=10.0.0.1', SENDER),
        (f'for={STRANGER}, for="[2001:db8::1]:80" ; host="a;b,c", for=10.0.0.2', "2001:db8::1"),
        (f"for={STRANGER}, for=unknown", PROXY),
        (f"for={STRANGER}, for=_hidden, for=10.0.0.2", "10.0.0.2"),
        (f"for={STRANGER}, proto=https", PROXY),
        (f"for={STRANGER}, for = {SENDER}", PROXY),
        ("", PROXY),
        # What the sender wrote opens a quotation, so that the end is read as a part of it.
        (f'for="{STRANGER}, for={SENDER}', PROXY),
        (f'for={STRANGER};x=", for="[2001:db8::1]"', PROXY),
        (f'for={STRANGER};x="\\, for="[2001:db8::1]"', PROXY),
    ],
)
def test_forwarded_header_is_read_from_its_end(value: str, expected: str) -> None:
    assert address("forwarded", ("Forwarded", value)) == expected


def test_lines_of_the_header_are_one_list() -> None:
    lines = [("X-Forwarded-For", STRANGER), ("X-Forwarded-For", SENDER), ("X-Forwarded-For", "10.0.0.2")]
    assert address("x-forwarded-for", *lines) == SENDER


@pytest.mark.parametrize("peer", [STRANGER, "127.0.0.1", "testclient", None])
def test_header_of_other_senders_is_ignored(peer: str | None) -> None:
    assert address("x-forwarded-for", ("X-Forwarded-For", SENDER), peer=peer) == (peer or "")
    assert address("forwarded", ("Forwarded", f"for={SENDER}"), peer=peer) == (peer or "")


def test_only_the_header_that_the_setting_names_counts() -> None:
    """A proxy that writes one of them passes the other on as the sender wrote it."""
    both = [("X-Forwarded-For", SENDER), ("Forwarded", f"for={STRANGER}")]
    assert address("none", *both) == PROXY
    assert address("x-forwarded-for", *both) == SENDER
    assert address("forwarded", *both) == STRANGER


def test_long_header_is_read_quickly() -> None:
    """The header is bounded by 64 KiB; no text of that size makes the expression try many ways."""
    for text in ('"' * 65_000, "a=" * 32_000, '\\"' * 32_000, ";" * 65_000, "," * 65_000):
        assert address("forwarded", ("Forwarded", text)) == PROXY
