"""Addresses that clients want to be called at: refused with the field's name, and without telling where names lead."""

import pytest

from restante.core.errors import BadInput
from restante.events.callbacks import check_callback
from tests.events.desk import receiver_client


async def test_a_public_one_is_taken() -> None:
    url = await check_callback(receiver_client(), "https://tpp.example:8443/hook", "Data.CallbackUrl")
    assert url == ("tpp.example", 8443, "/hook")


@pytest.mark.parametrize("text", ["", "http://tpp.example/", "https://user@tpp.example/", "nonsense"])
async def test_one_that_is_badly_written_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"Data\.CallbackUrl: expected an https address"):
        await check_callback(receiver_client(), text, "Data.CallbackUrl")


async def test_where_a_name_leads_is_not_told() -> None:
    said = set()
    for host in ("db.inside.example", "nowhere.invalid"):
        with pytest.raises(BadInput) as refused:
            await check_callback(receiver_client(), f"https://{host}/", "Data.CallbackUrl")
        said.add(refused.value.message)
    assert said == {
        "Data.CallbackUrl: expected an address whose host can be resolved, to public addresses only",
    }
