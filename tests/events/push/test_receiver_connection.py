"""The receiver client against a real receiver over real TLS: every kind of response, and every failure."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from restante.core.events.addresses import parse_allowed
from restante.core.events.callback_url import CallbackUrl, parse_callback_url
from restante.core.events.push_outcome import PushResult
from restante.events.outgoing_http import (
    USER_AGENT,
    AddressRefused,
    NotReachable,
    OutgoingClient,
    OutgoingOptions,
    Resolve,
    checked_addresses,
    tls_context,
)
from restante.events.push.receiver_connection import BODY_BYTES_MAX, ReceiverConnection
from tests.events.default_options import receiver_client_options
from tests.events.receiver_process import ReceiverProcess, receiving
from tests.events.tls_files import TlsFiles

TOKEN = b"eyJ.eyJ.sig"
LOOPBACK = parse_allowed(["127.0.0.0/8", "::1"])


@pytest.fixture(scope="module")
def receiver(tls: TlsFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReceiverProcess]:
    with receiving(tls, tmp_path_factory.mktemp("receiver") / "record", requests_client_certificate=True) as receiver:
        yield receiver


@pytest.fixture
def options(tls: TlsFiles) -> OutgoingOptions:
    return receiver_client_options(timeout_seconds=20.0, allowed=LOOPBACK, ca_file=str(tls.authority))


@pytest.fixture
async def client(options: OutgoingOptions) -> AsyncIterator[OutgoingClient]:
    client = OutgoingClient(options)
    yield client
    client.close()


def resolver_of(*addresses: str) -> Resolve:
    async def resolve(_host: str, _port: int) -> list[str]:
        return list(addresses)

    return resolve


async def post(client: OutgoingClient, url: str, **headers: str) -> PushResult:
    connection = ReceiverConnection(client, parse_callback_url(url))
    try:
        return await connection.post(TOKEN, headers)
    finally:
        connection.close()


async def test_request_line_headers_and_body(client: OutgoingClient, receiver: ReceiverProcess) -> None:
    result = await post(client, receiver.url("/status/202"), **{"content-type": "text/x"}, authorization="Bearer x")
    assert result == PushResult(202)
    request = receiver.requests("/status/202")[-1]
    assert request["first"] == "POST /status/202 HTTP/1.1"
    assert request["body"] == TOKEN.decode()
    assert request["headers"] == {
        "host": f"localhost:{receiver.port}",
        "accept": "application/json",
        "user-agent": USER_AGENT,
        "content-length": str(len(TOKEN)),
        "content-type": "text/x",
        "authorization": "Bearer x",
    }
    assert request["certificate"] is False


async def test_certificate_for_an_ip_address_is_verified(client: OutgoingClient, receiver: ReceiverProcess) -> None:
    assert (await post(client, receiver.url("/status/204", "127.0.0.1"))).status == 204


@pytest.mark.parametrize("status", [200, 201, 204, 301, 307, 400, 401, 403, 404, 410, 429, 500, 503, 599])
async def test_other_statuses_are_reported(client: OutgoingClient, receiver: ReceiverProcess, status: int) -> None:
    result = await post(client, receiver.url(f"/status/{status}"))
    assert result == PushResult(status, f"response status {status}")


async def test_redirect_is_not_followed(client: OutgoingClient, receiver: ReceiverProcess) -> None:
    before = len(receiver.requests("/status/202"))
    assert (await post(client, receiver.url("/redirect"))).status == 302
    assert len(receiver.requests("/status/202")) == before


async def test_error_body_is_returned(client: OutgoingClient, receiver: ReceiverProcess) -> None:
    result = await post(client, receiver.url("/error"))
    assert result.status == 400
    assert result.body == b'{"err":"invalid_issuer","description":"who are you?"}'


async def test_interim_response_is_skipped(client: OutgoingClient, receiver: ReceiverProcess) -> None:
    assert (await post(client, receiver.url("/early"))).status == 202


async def test_second_response_is_ignored_and_the_connection_is_not_reused(
    client: OutgoingClient, receiver: ReceiverProcess
) -> None:
    connection = ReceiverConnection(client, parse_callback_url(receiver.url("/twice")))
    assert (await connection.post(TOKEN, {})).status == 202
    assert (await connection.post(TOKEN, {})).status == 202
    connection.close()
    one, other = receiver.requests("/twice")[-2:]
    assert one["connection"] != other["connection"]


async def test_body_is_read_up_to_its_bound(client: OutgoingClient, receiver: ReceiverProcess) -> None:
    result = await post(client, receiver.url("/long-body"))
    assert (result.status, len(result.body)) == (202, BODY_BYTES_MAX)


async def test_endless_headers_are_a_failure(client: OutgoingClient, receiver: ReceiverProcess) -> None:
    result = await post(client, receiver.url("/long-head"))
    assert result.status is None
    assert result.problem


@pytest.mark.parametrize("path", ["/garbage", "/hang-up"])
async def test_response_that_is_not_http_is_a_failure(
    client: OutgoingClient, receiver: ReceiverProcess, path: str
) -> None:
    result = await post(client, receiver.url(path))
    assert result.status is None
    assert result.problem


async def test_silent_receiver_times_out(options: OutgoingOptions, receiver: ReceiverProcess) -> None:
    client = OutgoingClient(replace(options, timeout_seconds=1.0))
    assert await post(client, receiver.url("/silent")) == PushResult(None, "no response within 1 seconds")
    client.close()


async def test_status_is_returned_although_the_body_does_not_end(
    options: OutgoingOptions, receiver: ReceiverProcess
) -> None:
    client = OutgoingClient(replace(options, timeout_seconds=2.0))
    assert (await post(client, receiver.url("/slow-body"))).status == 202
    client.close()


async def test_consecutive_events_share_a_connection(client: OutgoingClient, receiver: ReceiverProcess) -> None:
    connection = ReceiverConnection(client, parse_callback_url(receiver.url("/status/202,500,202")))
    statuses = [(await connection.post(TOKEN, {})).status for _ in range(3)]
    connection.close()
    assert statuses == [202, 500, 202]
    assert len({request["connection"] for request in receiver.requests("/status/202,500,202")}) == 1


async def test_closed_connection_is_reopened(client: OutgoingClient, receiver: ReceiverProcess) -> None:
    connection = ReceiverConnection(client, parse_callback_url(receiver.url("/close-after")))
    assert [(await connection.post(TOKEN, {})).status for _ in range(3)] == [202, 202, 202]
    connection.close()


async def test_refused_connection_is_a_failure(client: OutgoingClient, tls: TlsFiles, tmp_path: Path) -> None:
    with receiving(tls, tmp_path / "record") as stopped:
        url = stopped.url("/status/202")
    result = await post(client, url)
    assert result.status is None
    assert "no connection to localhost" in str(result.problem)


@pytest.mark.parametrize("name", ["elsewhere", "stranger", "expired"])
async def test_invalid_certificate_is_a_failure(
    client: OutgoingClient, tls: TlsFiles, tmp_path: Path, name: str
) -> None:
    with receiving(tls, tmp_path / "record", certificate=getattr(tls, name)) as receiver:
        result = await post(client, receiver.url("/status/202"))
        assert result.status is None
        assert "certificate" in str(result.problem)
        assert receiver.requests() == []


async def test_client_certificate_is_sent_if_configured(
    options: OutgoingOptions, tls: TlsFiles, receiver: ReceiverProcess
) -> None:
    client = OutgoingClient(replace(options, certificate_file=str(tls.client)))
    assert (await post(client, receiver.url("/status/203"))).status == 203
    assert receiver.requests("/status/203")[-1]["certificate"] is True
    client.close()


async def test_post_can_be_cancelled(client: OutgoingClient, receiver: ReceiverProcess) -> None:
    waiting = asyncio.create_task(post(client, receiver.url("/silent")))
    before = len(receiver.requests("/silent"))
    while len(receiver.requests("/silent")) == before:
        await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_tls_is_verified_and_at_least_1_2() -> None:
    context = tls_context(receiver_client_options())
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("is_ca", [True, False])
def test_unusable_files_are_refused_at_once(tmp_path: Path, is_ca: bool) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    for path in (str(tmp_path / "absent.pem"), str(empty)):
        options = receiver_client_options(ca_file=path) if is_ca else receiver_client_options(certificate_file=path)
        with pytest.raises(OSError, match="push_ca, push_certificate or push_key cannot be used"):
            OutgoingClient(options)


URL = CallbackUrl("tpp.example", 443, "/")


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["2606:4700::1", "fe80::1"]])
async def test_host_with_one_private_address_is_refused(addresses: list[str]) -> None:
    with pytest.raises(AddressRefused, match=r"tpp\.example"):
        await checked_addresses(resolver_of(*addresses), URL, parse_allowed([]))


async def test_host_without_address_is_not_reachable() -> None:
    with pytest.raises(NotReachable):
        await checked_addresses(resolver_of(), URL, parse_allowed([]))


async def test_loopback_is_refused_unless_allowed(options: OutgoingOptions, receiver: ReceiverProcess) -> None:
    client = OutgoingClient(replace(options, allowed=parse_allowed([])))
    before = len(receiver.requests())
    result = await post(client, receiver.url("/status/202"))
    assert "not a public address" in str(result.problem)
    with pytest.raises(AddressRefused):
        await client.check(parse_callback_url(receiver.url("/status/202")))
    assert len(receiver.requests()) == before
    client.close()


async def test_dns_rebinding_is_refused(options: OutgoingOptions, receiver: ReceiverProcess) -> None:
    """DNS rebinding: the name resolves to a public address for the check, and to loopback for the connection."""
    responses = iter([["8.8.8.8"], ["127.0.0.1"]])

    async def resolve(_host: str, _port: int) -> list[str]:
        return next(responses)

    client = OutgoingClient(replace(options, allowed=parse_allowed([])), resolve)
    url = receiver.url("/status/202")
    await client.check(parse_callback_url(url))
    before = len(receiver.requests())
    assert "not a public address" in str((await post(client, url)).problem)
    assert len(receiver.requests()) == before
    client.close()


async def test_connection_uses_a_checked_address(options: OutgoingOptions, receiver: ReceiverProcess) -> None:
    """The name is not resolved again: it does not exist, and the certificate is verified for the name."""
    client = OutgoingClient(options, resolver_of("127.0.0.1"))
    assert (await post(client, receiver.url("/status/202"))).status == 202
    result = await post(client, receiver.url("/status/202", "nowhere.invalid"))
    assert "certificate" in str(result.problem)
    client.close()


async def test_second_address_is_tried(options: OutgoingOptions, receiver: ReceiverProcess) -> None:
    client = OutgoingClient(options, resolver_of("127.0.0.77", "127.0.0.1"))
    assert (await post(client, receiver.url("/status/202"))).status == 202
    client.close()
