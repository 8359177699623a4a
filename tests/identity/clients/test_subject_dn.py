import pytest
from cryptography import x509

from restante.identity.clients import subject_dn
from tests.pki import TPP_DN, pki


def test_written_name_equals_the_certificates_subject() -> None:
    certificate = x509.load_pem_x509_certificate(pki().tpp.certificate.read_bytes())
    assert subject_dn.canonical(TPP_DN) == subject_dn.canonical_of(certificate.subject)


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("CN=App,O=Example Ltd,C=GB", "CN=app,O=example  LTD,C=gb"),
        ("CN=App,O=Example Ltd", "2.5.4.3=App,2.5.4.10=Example Ltd"),
        ("CN=a+OU=b,O=c", "OU=b+CN=a,O=c"),
        (r"CN=a\,b,O=c", r"CN=a\2Cb,O=c"),
        ("CN=Å", "CN=A\u030a"),
        ("serialNumber=1,C=GB", "SERIALNUMBER=1,2.5.4.6=GB"),
    ],
)
def test_equal_names_have_one_canonical_form(one: str, same: str) -> None:
    assert subject_dn.canonical(one) == subject_dn.canonical(same)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CN=a,O=b", "O=b,CN=a"),
        ("CN=a,O=b", "CN=a+O=b"),
        ("CN=a", "CN=a,O=b"),
        ("CN=a", "OU=a"),
        (r"CN=a\,O=b", "CN=a,O=b"),
        (r"CN=a\,2.5.4.10\=b", "CN=a,O=b"),
        ("CN=ab", "CN=a b"),
    ],
)
def test_different_names_have_different_canonical_forms(one: str, other: str) -> None:
    assert subject_dn.canonical(one) != subject_dn.canonical(other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "CN",
        "=a",
        "CN=a,",
        ",CN=a",
        "CN=a, O=b",
        "/CN=a/O=b",
        "NOSUCH=a",
        "CN=#0403616263",
        "CN=a+CN=a",
        "C=GBR",
        "CN=" + "a" * 2000,
        "CN=a\0",
        r"CN=a\00",
        r"CN=\ff",
    ],
)
def test_invalid_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 — the caller adds the message
        subject_dn.canonical(text)
