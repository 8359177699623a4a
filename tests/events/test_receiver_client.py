"""Events on their way to a real receiver over real TLS: every kind of answer, and every way of not answering."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from restante.core.addresses import parse_allowed
from restante.core.callback_url import CallbackUrl, parse_callback_url
from restante.events.receiver_client import (
    BODY_BYTES_MAX,
    USER_AGENT,
    AddressRefused,
    ClientOptions,
    Exchange,
    NotReachable,
    ReceiverClient,
    ReceiverConnection,
    Resolve,
    checked_addresses,
    tls_context,
)
from tests.events.receiver_process import ReceiverProcess, receiving
from tests.events.tls_files import TlsFiles, make_tls_files

TOKEN = b"eyJ.eyJ.sig"
LOOPBACK = parse_allowed(["127.0.0.0/8", "::1"])


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return make_tls_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def receiver(tls: TlsFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReceiverProcess]:
    with receiving(tls, tmp_path_factory.mktemp("receiver") / "record", asks_who=True) as receiver:
        yield receiver


@pytest.fixture
def options(tls: TlsFiles) -> ClientOptions:
    return ClientOptions(timeout_seconds=20.0, allowed=LOOPBACK, ca_file=str(tls.authority))


@pytest.fixture
async def client(options: ClientOptions) -> AsyncIterator[ReceiverClient]:
    client = ReceiverClient(options)
    yield client
    client.close()


def resolving_to(*addresses: str) -> Resolve:
    async def resolve(_host: str, _port: int) -> list[str]:
        return list(addresses)

    return resolve


async def post(client: ReceiverClient, url: str, **headers: str) -> Exchange:
    connection = ReceiverConnection(client, parse_callback_url(url))
    try:
        return await connection.post(TOKEN, headers)
    finally:
        connection.close()


async def test_what_the_request_looks_like(client: ReceiverClient, receiver: ReceiverProcess) -> None:
    exchange = await post(client, receiver.url("/answer/202"), authorization="Bearer x")
    assert exchange == Exchange(202, b"", None)
    asked = receiver.asked("/answer/202")[-1]
    assert asked["first"] == "POST /answer/202 HTTP/1.1"
    assert asked["body"] == TOKEN.decode()
    assert asked["headers"] == {
        "host": f"localhost:{receiver.port}",
        "content-type": "application/jwt",
        "accept": "application/json",
        "user-agent": USER_AGENT,
        "content-length": str(len(TOKEN)),
        "authorization": "Bearer x",
    }
    assert asked["certificate"] is False


async def test_a_certificate_for_an_address_is_verified_too(client: ReceiverClient, receiver: ReceiverProcess) -> None:
    assert (await post(client, receiver.url("/answer/204", "127.0.0.1"))).status == 204


@pytest.mark.parametrize("status", [200, 201, 204, 301, 307, 400, 401, 403, 404, 410, 429, 500, 503, 599])
async def test_other_statuses_are_told(client: ReceiverClient, receiver: ReceiverProcess, status: int) -> None:
    exchange = await post(client, receiver.url(f"/answer/{status}"))
    assert exchange == Exchange(status, b"", f"it answered {status}")


async def test_a_redirect_is_not_followed(client: ReceiverClient, receiver: ReceiverProcess) -> None:
    before = len(receiver.asked("/answer/202"))
    assert (await post(client, receiver.url("/redirect"))).status == 302
    assert len(receiver.asked("/answer/202")) == before


async def test_an_error_body_is_kept(client: ReceiverClient, receiver: ReceiverProcess) -> None:
    exchange = await post(client, receiver.url("/error"))
    assert exchange.status == 400
    assert exchange.body == b'{"err":"invalid_issuer","description":"who are you?"}'


async def test_what_comes_before_an_answer_is_none(client: ReceiverClient, receiver: ReceiverProcess) -> None:
    assert (await post(client, receiver.url("/early"))).status == 202


async def test_of_two_answers_the_first_counts_and_the_connection_is_not_used_again(
    client: ReceiverClient, receiver: ReceiverProcess
) -> None:
    connection = ReceiverConnection(client, parse_callback_url(receiver.url("/twice")))
    assert (await connection.post(TOKEN, {})).status == 202
    assert (await connection.post(TOKEN, {})).status == 202
    connection.close()
    one, other = receiver.asked("/twice")[-2:]
    assert one["connection"] != other["connection"]


async def test_a_body_is_read_to_its_bound_only(client: ReceiverClient, receiver: ReceiverProcess) -> None:
    exchange = await post(client, receiver.url("/long-body"))
    assert (exchange.status, len(exchange.body)) == (202, BODY_BYTES_MAX)


async def test_headers_without_an_end_are_no_answer(client: ReceiverClient, receiver: ReceiverProcess) -> None:
    exchange = await post(client, receiver.url("/long-head"))
    assert exchange.status is None
    assert exchange.problem


@pytest.mark.parametrize("path", ["/garbage", "/hang-up"])
async def test_no_http_is_no_answer(client: ReceiverClient, receiver: ReceiverProcess, path: str) -> None:
    exchange = await post(client, receiver.url(path))
    assert exchange.status is None
    assert exchange.problem


async def test_silence_ends_with_the_time_out(options: ClientOptions, receiver: ReceiverProcess) -> None:
    client = ReceiverClient(replace(options, timeout_seconds=1.0))
    assert await post(client, receiver.url("/silent")) == Exchange(None, b"", "no answer within 1 seconds")
    client.close()


async def test_an_answer_counts_although_its_body_does_not_end(
    options: ClientOptions, receiver: ReceiverProcess
) -> None:
    client = ReceiverClient(replace(options, timeout_seconds=2.0))
    assert (await post(client, receiver.url("/slow-body"))).status == 202
    client.close()


async def test_events_in_a_row_share_a_connection(client: ReceiverClient, receiver: ReceiverProcess) -> None:
    connection = ReceiverConnection(client, parse_callback_url(receiver.url("/answer/202,500,202")))
    statuses = [(await connection.post(TOKEN, {})).status for _ in range(3)]
    connection.close()
    assert statuses == [202, 500, 202]
    assert len({asked["connection"] for asked in receiver.asked("/answer/202,500,202")}) == 1


async def test_a_connection_that_was_closed_meanwhile_is_made_anew(
    client: ReceiverClient, receiver: ReceiverProcess
) -> None:
    connection = ReceiverConnection(client, parse_callback_url(receiver.url("/close-after")))
    assert [(await connection.post(TOKEN, {})).status for _ in range(3)] == [202, 202, 202]
    connection.close()


async def test_nobody_there(client: ReceiverClient, tls: TlsFiles, tmp_path: Path) -> None:
    with receiving(tls, tmp_path / "record") as gone:
        url = gone.url("/answer/202")
    exchange = await post(client, url)
    assert exchange.status is None
    assert "no connection to localhost" in str(exchange.problem)


@pytest.mark.parametrize("name", ["elsewhere", "stranger", "expired"])
async def test_a_certificate_that_does_not_hold_is_no_answer(
    client: ReceiverClient, tls: TlsFiles, tmp_path: Path, name: str
) -> None:
    with receiving(tls, tmp_path / "record", certificate=getattr(tls, name)) as receiver:
        exchange = await post(client, receiver.url("/answer/202"))
        assert exchange.status is None
        assert "certificate" in str(exchange.problem)
        assert receiver.asked() == []


async def test_our_certificate_is_shown_where_one_is_set(
    options: ClientOptions, tls: TlsFiles, receiver: ReceiverProcess
) -> None:
    client = ReceiverClient(replace(options, certificate_file=str(tls.client)))
    assert (await post(client, receiver.url("/answer/203"))).status == 203
    assert receiver.asked("/answer/203")[-1]["certificate"] is True
    client.close()


async def test_cancelled_while_it_waits(client: ReceiverClient, receiver: ReceiverProcess) -> None:
    waiting = asyncio.create_task(post(client, receiver.url("/silent")))
    before = len(receiver.asked("/silent"))
    while len(receiver.asked("/silent")) == before:
        await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_tls_is_verified_and_not_older_than_1_2() -> None:
    context = tls_context(ClientOptions())
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("is_ca", [True, False])
def test_files_that_cannot_be_used_are_noticed_at_once(tmp_path: Path, is_ca: bool) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    for path in (str(tmp_path / "absent.pem"), str(empty)):
        options = ClientOptions(ca_file=path) if is_ca else ClientOptions(certificate_file=path)
        with pytest.raises(OSError, match="push_ca, push_certificate or push_key cannot be used"):
            ReceiverClient(options)


URL = CallbackUrl("tpp.example", 443, "/")


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["2606:4700::1", "fe80::1"]])
async def test_one_address_that_is_not_public_is_enough_to_refuse_a_host(addresses: list[str]) -> None:
    with pytest.raises(AddressRefused, match=r"tpp\.example"):
        await checked_addresses(resolving_to(*addresses), URL, parse_allowed([]))


async def test_a_host_without_address_cannot_be_reached() -> None:
    with pytest.raises(NotReachable):
        await checked_addresses(resolving_to(), URL, parse_allowed([]))


async def test_loopback_is_refused_unless_it_is_allowed(options: ClientOptions, receiver: ReceiverProcess) -> None:
    client = ReceiverClient(replace(options, allowed=parse_allowed([])))
    before = len(receiver.asked())
    exchange = await post(client, receiver.url("/answer/202"))
    assert "not a public address" in str(exchange.problem)
    with pytest.raises(AddressRefused):
        await client.check(parse_callback_url(receiver.url("/answer/202")))
    assert len(receiver.asked()) == before
    client.close()


async def test_a_name_that_changes_its_mind_gains_nothing(options: ClientOptions, receiver: ReceiverProcess) -> None:
    """DNS rebinding: public when it is checked, loopback when it is connected to."""
    answers = iter([["8.8.8.8"], ["127.0.0.1"]])

    async def resolve(_host: str, _port: int) -> list[str]:
        return next(answers)

    client = ReceiverClient(replace(options, allowed=parse_allowed([])), resolve)
    url = receiver.url("/answer/202")
    await client.check(parse_callback_url(url))
    before = len(receiver.asked())
    assert "not a public address" in str((await post(client, url)).problem)
    assert len(receiver.asked()) == before
    client.close()


async def test_the_connection_goes_to_an_address_that_was_checked(
    options: ClientOptions, receiver: ReceiverProcess
) -> None:
    """The name is not looked up again: it leads nowhere, and its certificate is that of the name."""
    client = ReceiverClient(options, resolving_to("127.0.0.1"))
    assert (await post(client, receiver.url("/answer/202"))).status == 202
    exchange = await post(client, receiver.url("/answer/202", "nowhere.invalid"))
    assert "certificate" in str(exchange.problem)
    client.close()


async def test_a_second_address_is_tried(options: ClientOptions, receiver: ReceiverProcess) -> None:
    client = ReceiverClient(options, resolving_to("127.0.0.77", "127.0.0.1"))
    assert (await post(client, receiver.url("/answer/202"))).status == 202
    client.close()
