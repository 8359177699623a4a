"""Holds an answer of event polling against what a case expects of it."""

import re
from typing import Any

from tests.conformance.cases import body_of, check_headers, check_value
from tests.conformance.event_cases import Expected, Step
from tests.events.bank import token_of
from tests.server.serving import WireAnswer

INTERACTION_ID = b"x-fapi-interaction-id"


def check_answer(step: Step, headers: dict[str, str], answer: WireAnswer) -> None:
    expected = step.expected
    assert answer.status == expected.status, answer.body
    assert answer.header(b"cache-control") == b"no-store"
    check_interaction_id(step, answer)
    check_headers(answer, headers, expected.absent)
    if expected.text is not None:
        check_value(expected.text, answer.body.decode(), "the body")
    if answer.body:
        assert answer.header(b"content-type") == b"application/json"
        check_body(expected, body_of(answer))


def check_interaction_id(step: Step, answer: WireAnswer) -> None:
    """On every answer: what was sent, or a new one."""
    sent = [value for name, value in step.headers if name.lower() == INTERACTION_ID.decode()]
    given = answer.header(INTERACTION_ID)
    assert given is not None
    if len(sent) == 1 and expected_back(sent[0]):
        assert given.decode() == sent[0]
    else:
        check_value("~[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", given.decode(), "the interaction id")


def expected_back(sent: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_.~:+/=-]{1,128}", sent) is not None


def check_body(expected: Expected, body: Any) -> None:
    if expected.json is not None:
        assert body == expected.json
    if expected.status == 200:
        assert list(body) == ["sets", "moreAvailable"]
        assert type(body["moreAvailable"]) is bool
    if expected.sets is not None:
        assert list(body["sets"].items()) == [(jti, token_of(jti)) for jti in expected.sets]
    if expected.more is not None:
        assert body["moreAvailable"] is expected.more
    if expected.code is not None:
        check_refusal(expected, body)


def check_refusal(expected: Expected, body: Any) -> None:
    assert list(body) == ["Code", "Id", "Message", "Errors"]
    assert body["Code"].startswith(f"{expected.status} ")
    assert body["Id"]
    [item] = body["Errors"]
    assert item["ErrorCode"] == f"UK.OBIE.{expected.code}", body
    assert item["Message"] == body["Message"] != ""
    assert item.get("Path") == expected.path, body
