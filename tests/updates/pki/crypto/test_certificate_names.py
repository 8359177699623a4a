import pytest

from restante.core.errors import BadInput
from restante.updates.pki.crypto.certificate_names import NAMES_MAX, checked_name, checked_names, is_covered

LONGEST = ".".join(["a" * 63] * 3 + ["b" * 61])


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("www.example.com", "www.example.com"),
        ("WWW.Example.COM", "www.example.com"),
        ("*.example.com", "*.example.com"),
        ("localhost", "localhost"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("192.0.2.7", "192.0.2.7"),
        ("2001:DB8::1", "2001:db8::1"),
        (LONGEST, LONGEST),
    ],
)
def test_valid_name_is_normalised(sent: str, kept: str) -> None:
    assert checked_name(sent, "domain_name") == kept


@pytest.mark.parametrize(
    "sent",
    [
        "",
        ".",
        "a..b",
        "-a.example",
        "a-.example",
        "a_b.example",
        "bücher.example",
        "ſ.example",
        "*",
        "*.com",
        "a.*.example",
        "w*.example.com",
        "*.192.0.2.7",
        "example.com.",
        "exa mple.com",
        "example.com\n",
        "999.1.1.1",
        "192.0.2.7/24",
        "fe80::1%eth0",
        "https://example.com",
        "a" * 64 + ".example",
        "a" + LONGEST,
    ],
)
def test_invalid_name_is_refused(sent: str) -> None:
    with pytest.raises(BadInput, match=r"^sans\[2\]: "):
        checked_name(sent, "sans[2]")


def test_names_are_unique_with_the_domain_first() -> None:
    assert checked_names("B.example", ["a.example", "b.example"]) == ["b.example", "a.example"]


def test_error_names_the_field() -> None:
    with pytest.raises(BadInput, match=r"^sans\[1\]: "):
        checked_names("a.example", ["b.example", "?"])
    with pytest.raises(BadInput, match=r"^domain_name: "):
        checked_names("?", [])


def test_number_of_names_is_bounded() -> None:
    names = [f"n{i}.example" for i in range(NAMES_MAX + 1)]
    assert len(checked_names("a.example", names[:-1])) == NAMES_MAX + 1
    with pytest.raises(BadInput, match=r"^sans: "):
        checked_names("a.example", names)


@pytest.mark.parametrize(
    ("name", "covered"),
    [
        ("www.example.com", True),
        ("example.com", False),
        ("a.b.example.com", False),
        ("*.example.com", True),
        ("192.0.2.7", True),
        ("192.0.2.8", False),
    ],
)
def test_names_covered_by_a_certificate(name: str, covered: bool) -> None:
    assert is_covered(name, ["*.example.com", "192.0.2.7"]) is covered
