"""When the fast lane leaves an ACK to the application; what it answers is tested beside the application's answers."""

import pytest

from restante.commands.fast_ack import FastAck
from restante.database.database import Database
from restante.web.answer import Answer
from tests.commands.field import Field, Hired


class Lane:
    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def send(self, answer: Answer) -> None:
        self.answers.append(answer)

    def send_idle(self, tail: bytes) -> None: ...

    def wait(self, owner: object, parked: object, seconds: float) -> None: ...

    thumbprint = None


@pytest.fixture
def field(database: Database) -> Field:
    return Field(database)


@pytest.fixture
async def hired(field: Field) -> Hired:
    hired = field.hire(field.add_site())
    await field.tokens.verify(hired.token)
    return hired


@pytest.mark.parametrize(
    ("name", "body", "scheme"),
    [
        (b"cmd%31", b'{"status":"failed"}', b"Bearer "),
        (b"", b'{"status":"failed"}', b"Bearer "),
        (b"c" * 129, b'{"status":"failed"}', b"Bearer "),
        (b"cmd_1", b'{"status":"done"}', b"Bearer "),
        (b"cmd_1", b"{", b"Bearer "),
        (b"cmd_1", b'{"status":"failed"}', b"bearer "),
        (b"cmd_1", b'{"status":"failed"}', b"Bearer x"),
    ],
)
async def test_every_doubt_is_the_applications(
    field: Field, hired: Hired, name: bytes, body: bytes, scheme: bytes
) -> None:
    lane = Lane()
    fast = FastAck(field.parts.desk, field.parts.poll, field.tokens)
    headers = {b"authorization": scheme + hired.token.encode()}
    assert not fast(name, body, headers, lane)
    assert not fast(name, body, {}, lane)
    assert lane.answers == []
