"""The operator API against a server that plays a script, in both flavours."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterator
from typing import Any, Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from flavours import InLoop, QuickAsyncRuntime, QuickBlockingRuntime
from scripted_server import Lost, Reply, ScriptedServer, data, error

from restante_client import BlockingOperatorClient, OperatorClient
from restante_client.errors import BadRequest, EnrolmentRefused, Forbidden, NotFound, Unreachable
from restante_client.operator.nouns import BlockingNouns, Nouns

TOKEN = "rk_secret"
Noun = Callable[[str], Any]


@pytest.fixture(params=["asyncio", "blocking"])
def noun(request: Any, server: ScriptedServer, loop: asyncio.AbstractEventLoop) -> Iterator[Noun]:
    """The methods of a noun, or with "" those of the client itself, without asyncio."""
    if request.param == "blocking":
        blocking = BlockingOperatorClient(server.url, TOKEN, runtime=QuickBlockingRuntime())
        yield lambda name: getattr(blocking, name) if name else blocking
        blocking.close()
        return
    client = OperatorClient(server.url, TOKEN, runtime=QuickAsyncRuntime())
    yield lambda name: InLoop(loop, getattr(client, name) if name else client)
    loop.run_until_complete(client.close())


def plain(value: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value).encode())


def query_of(path: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(path).query)


def test_list_reads_all_pages(server: ScriptedServer, noun: Noun) -> None:
    server.steps = [plain({"items": [{"id": 1}, {"id": 2}], "next": 2}), plain({"items": [{"id": 3}], "next": None})]
    assert [site["id"] for site in noun("sites").list()] == [1, 2, 3]
    first, second = server.requests
    assert query_of(first.path) == {"limit": ["500"]}
    assert query_of(second.path) == {"limit": ["500"], "after": ["2"]}
    assert first.headers["Authorization"] == f"Bearer {TOKEN}"


def test_page_of_a_list_that_is_an_array_by_default_is_requested_as_object(server: ScriptedServer, noun: Noun) -> None:
    server.steps = [data({"items": [{"id": 7}], "next": 7})]
    page = noun("devices").list_of_user_page(3, limit=1)
    assert page == {"items": [{"id": 7}], "next": 7}
    assert urlsplit(server.requests[0].path).path == "/apiv1/users/3/devices"
    assert query_of(server.requests[0].path) == {"limit": ["1"], "page": ["object"]}


def test_body_has_only_the_given_fields(server: ScriptedServer, noun: Noun) -> None:
    server.steps = [plain({"id": 4}), plain({"command_id": "c"}, 201)]
    noun("rules").update(4, trigger_value=None, enabled=False)
    noun("commands").create(site_id=1, command_type="MINER_RESTART", miner_id=2, idempotency_key="k1")
    changed, created = server.requests
    assert (changed.method, changed.json) == ("PATCH", {"trigger_value": None, "enabled": False})
    assert created.json == {"site_id": 1, "command_type": "MINER_RESTART", "miner_id": 2}
    assert created.headers["Idempotency-Key"] == "k1"


def test_value_in_a_path_is_quoted(server: ScriptedServer, noun: Noun) -> None:
    server.steps = [plain({"client_id": "a/b c"})]
    noun("clients").get("a/b c")
    assert server.requests[0].path == "/admin/clients/a%2Fb%20c"


def test_export_is_streamed_and_its_refusal_raised(server: ScriptedServer, noun: Noun) -> None:
    server.steps = [Reply(200, b"one\ntwo\n"), error(403, "not yours")]
    assert b"".join(noun("audit").export(site_id=1)) == b"one\ntwo\n"
    with pytest.raises(Forbidden, match="not yours"):
        list(noun("audit").export())


def test_response_without_body_is_none(server: ScriptedServer, noun: Noun) -> None:
    server.steps = [Reply(204)]
    assert noun("keys").revoke(3) is None


@pytest.mark.parametrize(("status", "kind"), [(400, BadRequest), (403, Forbidden), (404, NotFound)])
def test_refusal_is_an_error_with_the_text_of_the_server(
    server: ScriptedServer, noun: Noun, status: int, kind: type[Exception]
) -> None:
    server.steps = [error(status, "what is wrong")]
    with pytest.raises(kind, match="what is wrong") as raised:
        noun("people").get(1)
    assert TOKEN not in str(raised.value)


def test_lost_response_is_unreachable(server: ScriptedServer, noun: Noun) -> None:
    server.steps = [Lost()]
    with pytest.raises(Unreachable):
        noun("sites").create(name="x")


def test_sign_in_shows_the_code_and_waits_for_the_approval(server: ScriptedServer, noun: Noun) -> None:
    code = {"device_code": "dc", "user_code": "ABCD-EFGH", "verification_uri": "u", "interval": 2, "expires_in": 600}
    ready = {"status": "ready", "user_id": 1, "access_token": "rp_x", "expires_in": 60}
    server.steps = [data(code), data({"status": "authorization_pending"}), data(ready)]
    shown: list[Any] = []
    assert noun("").sign_in(shown.append)["access_token"] == "rp_x"
    assert [each["user_code"] for each in shown] == ["ABCD-EFGH"]
    assert "device_code" not in shown[0]
    server.steps = [data(code), data({"status": "access_denied"})]
    with pytest.raises(EnrolmentRefused, match="denied"):
        noun("").sign_in(shown.append)


def test_repr_has_no_credential() -> None:
    client = BlockingOperatorClient("http://127.0.0.1:1", TOKEN, runtime=QuickBlockingRuntime())
    assert TOKEN not in repr(client) + repr(client.client) + repr(client.client.api)
    client.close()


def test_every_method_has_a_blocking_twin() -> None:
    client = OperatorClient("http://127.0.0.1:1", runtime=QuickAsyncRuntime())
    nouns, twins = vars(Nouns(client.api)), vars(BlockingNouns(client))
    assert set(nouns) == set(twins)
    for name, group in nouns.items():
        methods = {each for each, _ in inspect.getmembers(type(group), inspect.isfunction) if not each.startswith("_")}
        assert methods - {"quoted"} <= set(dir(twins[name])), name
    asyncio.run(client.close())
