import pytest

from restante.server.event_setting_kinds import Uri, Words


@pytest.mark.parametrize("raw", ["https://bank.example", "https://bank.example/issuer", "urn:bank:1"])
def test_uris(raw: str) -> None:
    assert Uri().read(raw) == raw


@pytest.mark.parametrize("raw", ["", "bank", "https://", "https://a b", 7, None])
def test_what_is_no_uri(raw: object) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        Uri().read(raw)


def test_words() -> None:
    assert Words().read("0015800001041RHAAY/bank") == "0015800001041RHAAY/bank"
    assert "512" in Words().expected
    for raw in ("", "a\nb", "x" * 513, 7, None):
        with pytest.raises(ValueError, match=r"^$"):
            Words().read(raw)
