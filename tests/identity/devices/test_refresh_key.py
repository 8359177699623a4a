import base64
import hmac

import pytest

from restante.identity.devices.refresh_key import COUNTER_BYTES, FAMILY_BYTES, MAC_BYTES, RefreshKey, RefreshTokenParts
from restante.identity.master_key import MasterKey

KEY = RefreshKey(MasterKey(bytes(32)))
FAMILY = bytes(range(FAMILY_BYTES))
TOKEN = KEY.write(FAMILY, 7)


def test_written_token_is_read() -> None:
    assert KEY.read(TOKEN) == RefreshTokenParts(FAMILY, 7)
    assert KEY.write(FAMILY, 7) == TOKEN


def test_token_consists_of_family_counter_and_mac() -> None:
    raw = base64.urlsafe_b64decode(TOKEN.removeprefix("rt_") + "=")
    assert (FAMILY_BYTES, COUNTER_BYTES, MAC_BYTES) == (16, 8, 32)
    assert len(raw) == 56
    assert raw[:24] == FAMILY + bytes(7) + b"\x07"
    key = MasterKey(bytes(32)).derive_key("refresh tokens")
    assert raw[24:] == hmac.digest(key, b"refresh tokens" + raw[:24], "sha256")


@pytest.mark.parametrize("place", range(0, 56, 5))
def test_altered_token_is_refused(place: int) -> None:
    raw = bytearray(base64.urlsafe_b64decode(TOKEN.removeprefix("rt_") + "="))
    raw[place] ^= 1
    assert KEY.read("rt_" + base64.urlsafe_b64encode(raw).decode().rstrip("=")) is None


def test_token_of_another_master_key_is_refused() -> None:
    assert RefreshKey(MasterKey(b"x" * 32)).read(TOKEN) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rt_",
        TOKEN.removeprefix("rt_"),
        TOKEN + "=",
        TOKEN + "A",
        TOKEN[:-1],
        TOKEN + " ",
        "rt_!!!!",
        "\u00ff\ud800",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    assert KEY.read(text) is None


def test_token_has_one_spelling() -> None:
    """75 characters carry two bits more than 56 bytes have."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    readable = [last for last in alphabet if KEY.read(TOKEN[:-1] + last) is not None]
    assert readable == [TOKEN[-1]]


def test_repr_does_not_show_the_key() -> None:
    assert MasterKey(bytes(32)).derive_key("refresh tokens").hex() not in repr(KEY)
