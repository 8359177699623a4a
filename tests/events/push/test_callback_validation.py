"""Callback URLs: a refusal names the field and does not reveal what a host resolves to."""

import pytest

from restante.core.errors import BadInput
from restante.core.events.callback_url import CallbackUrl
from restante.events.push.callback_validation import check_callback
from tests.events.client_app import receiver_client


async def test_public_url_is_accepted() -> None:
    url = await check_callback(receiver_client(), "https://tpp.example:8443/hook", "Data.CallbackUrl")
    assert url == CallbackUrl("tpp.example", 8443, "/hook")


@pytest.mark.parametrize("text", ["", "http://tpp.example/", "https://user@tpp.example/", "nonsense"])
async def test_invalid_url_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"Data\.CallbackUrl: expected an https address"):
        await check_callback(receiver_client(), text, "Data.CallbackUrl")


async def test_private_and_unknown_hosts_get_the_same_error() -> None:
    messages = set()
    for host in ("db.inside.example", "nowhere.invalid"):
        with pytest.raises(BadInput) as refused:
            await check_callback(receiver_client(), f"https://{host}/", "Data.CallbackUrl")
        messages.add(refused.value.message)
    assert messages == {
        "Data.CallbackUrl: expected an address whose host can be resolved, to public addresses only",
    }
