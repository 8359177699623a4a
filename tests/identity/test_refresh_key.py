import base64
import hmac

import pytest

from restante.identity.master_key import MasterKey
from restante.identity.refresh_key import COUNTER_BYTES, FAMILY_BYTES, MAC_BYTES, RefreshKey, Shown

KEY = RefreshKey(MasterKey(bytes(32)))
FAMILY = bytes(range(FAMILY_BYTES))
TOKEN = KEY.write(FAMILY, 7)


def test_what_was_written_is_read() -> None:
    assert KEY.read(TOKEN) == Shown(FAMILY, 7)
    assert KEY.write(FAMILY, 7) == TOKEN


def test_the_parts_of_a_token() -> None:
    raw = base64.urlsafe_b64decode(TOKEN.removeprefix("rt_") + "=")
    assert (FAMILY_BYTES, COUNTER_BYTES, MAC_BYTES) == (16, 8, 32)
    assert len(raw) == 56
    assert raw[:24] == FAMILY + bytes(7) + b"\x07"
    key = MasterKey(bytes(32)).derived("refresh tokens")
    assert raw[24:] == hmac.digest(key, b"refresh tokens" + raw[:24], "sha256")


@pytest.mark.parametrize("place", range(0, 56, 5))
def test_an_altered_byte_is_noticed(place: int) -> None:
    raw = bytearray(base64.urlsafe_b64decode(TOKEN.removeprefix("rt_") + "="))
    raw[place] ^= 1
    assert KEY.read("rt_" + base64.urlsafe_b64encode(raw).decode().rstrip("=")) is None


def test_another_master_key_reads_nothing() -> None:
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
def test_what_was_not_written_by_us_is_not_read(text: str) -> None:
    assert KEY.read(text) is None


def test_each_token_has_one_spelling() -> None:
    """75 characters carry two bits more than 56 bytes have."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    readable = [last for last in alphabet if KEY.read(TOKEN[:-1] + last) is not None]
    assert readable == [TOKEN[-1]]


def test_the_key_does_not_show_itself() -> None:
    assert MasterKey(bytes(32)).derived("refresh tokens").hex() not in repr(KEY)
