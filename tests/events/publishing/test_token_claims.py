import json
from typing import Any

import pytest

from restante.core.errors import BadInput
from restante.events.publishing import token_claims
from restante.events.publishing.token_claims import (
    CONSENT_REVOKED,
    LINKED_ACCOUNT_UPDATE,
    RESOURCE_UPDATE,
    TokenEnvelope,
    checked_event,
    open_banking_claims,
    shared_signals_claims,
)
from tests.events.publish_fixture import SESSION_REVOKED, SUB, SUBJECT, UPDATED

RLK = "http://openbanking.org.uk/rlk"
TO = TokenEnvelope("tpp-1", "j1", 1_800_000_000)


def refused(events: Any = UPDATED, txn: str = "t", toe: Any = 1, sub: str | None = SUB, sub_id: Any = None) -> str:
    with pytest.raises(BadInput) as error:
        checked_event(events, txn, toe, sub, sub_id)
    return error.value.field


def without(member: str) -> dict[str, Any]:
    return {name: value for name, value in SUBJECT.items() if name != member}


def test_open_banking_claims_have_every_claim_except_iss() -> None:
    event = checked_event({**UPDATED, "urn:example:other": {}}, "t-1", 1_799_999_999, SUB)
    assert json.loads(open_banking_claims(event, [RESOURCE_UPDATE], TO)) == {
        "iat": 1_800_000_000,
        "jti": "j1",
        "sub": SUB,
        "aud": "tpp-1",
        "txn": "t-1",
        "toe": 1_799_999_999,
        "events": UPDATED,
    }


def test_shared_signals_claims_have_one_event_and_no_sub() -> None:
    event = checked_event(
        {SESSION_REVOKED: {"reason": "x"}, **UPDATED}, "t-1", 5, SUB, {"format": "opaque", "id": "u1"}
    )
    claims = json.loads(shared_signals_claims(event, SESSION_REVOKED, TO))
    assert claims["events"] == {SESSION_REVOKED: {"reason": "x"}}
    assert claims["sub_id"] == {"format": "opaque", "id": "u1"}
    assert "sub" not in claims


def test_shared_signals_subject_defaults_to_the_uri() -> None:
    event = checked_event({SESSION_REVOKED: {}}, "t", 5, SUB)
    assert json.loads(shared_signals_claims(event, SESSION_REVOKED, TO))["sub_id"] == {"format": "uri", "uri": SUB}


def test_open_banking_events_are_accepted() -> None:
    checked_event({CONSENT_REVOKED: {}, RESOURCE_UPDATE: {"subject": SUBJECT}}, "t", 1, SUB)
    checked_event({CONSENT_REVOKED: {"reason": "User-Action", "subject": SUBJECT}}, "t", 1, SUB)
    checked_event({LINKED_ACCOUNT_UPDATE: {"reason": "r", "subject": SUBJECT}}, "t", 1, SUB)


@pytest.mark.parametrize(
    ("event_type", "members", "field"),
    [
        (RESOURCE_UPDATE, {}, "subject"),
        (RESOURCE_UPDATE, {"subject": None}, "subject"),
        (RESOURCE_UPDATE, {"subject": SUBJECT, "reasons": "x"}, "reasons"),
        (RESOURCE_UPDATE, {"subject": without("subject_type")}, "subject.subject_type"),
        (RESOURCE_UPDATE, {"subject": {**SUBJECT, "subject_type": "other"}}, "subject.subject_type"),
        (
            RESOURCE_UPDATE,
            {"subject": without("http://openbanking.org.uk/rid")},
            "subject.http://openbanking.org.uk/rid",
        ),
        (
            RESOURCE_UPDATE,
            {"subject": without("http://openbanking.org.uk/rty")},
            "subject.http://openbanking.org.uk/rty",
        ),
        (RESOURCE_UPDATE, {"subject": without(RLK)}, f"subject.{RLK}"),
        (RESOURCE_UPDATE, {"subject": {**SUBJECT, RLK: []}}, f"subject.{RLK}"),
        (RESOURCE_UPDATE, {"subject": {**SUBJECT, RLK: [{"version": "v4.0"}]}}, f"subject.{RLK}[0].link"),
        (
            RESOURCE_UPDATE,
            {"subject": {**SUBJECT, RLK: [{"version": "v4.0", "link": "no link"}]}},
            f"subject.{RLK}[0].link",
        ),
        (
            RESOURCE_UPDATE,
            {"subject": {**SUBJECT, RLK: [{"version": "v" * 11, "link": SUB}]}},
            f"subject.{RLK}[0].version",
        ),
        (CONSENT_REVOKED, {"reason": 7}, "reason"),
        (CONSENT_REVOKED, {"reason": ""}, "reason"),
        (LINKED_ACCOUNT_UPDATE, {"reason": "x"}, "subject"),
    ],
)
def test_incomplete_open_banking_event_is_refused(event_type: str, members: dict[str, Any], field: str) -> None:
    assert refused({event_type: members}) == f"events.{event_type}.{field}"


@pytest.mark.parametrize(
    "name", ["urn:example:thing", "https://example.com/events/x", SESSION_REVOKED, "tag:example.com,2026:x"]
)
def test_other_namespaced_events_are_accepted(name: str) -> None:
    checked_event({name: {"any": ["thing", 1, 1.5, None, True]}}, "t", 1, SUB)


@pytest.mark.parametrize("name", ["", "resource-update", "urn:", "urn:x", "https://", "http:x", "with space:x", "é:x"])
def test_event_type_that_is_not_a_uri_is_refused(name: str) -> None:
    assert refused({name: {}}) == f"events.{name}"


@pytest.mark.parametrize("events", [None, {}, [], "x", 7])
def test_missing_events_are_refused(events: Any) -> None:
    assert refused(events) == "events"


@pytest.mark.parametrize("members", [None, [], "x", 7])
def test_event_that_is_not_an_object_is_refused(members: Any) -> None:
    assert refused({"urn:example:a": members}) == "events.urn:example:a"


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (float("nan"), ".a"),
        (float("inf"), ".a"),
        (2**63, ".a"),
        (-(2**64), ".a"),
        ("\0", ".a"),
        ("\ud800", ".a"),
        (b"bytes", ".a"),
        ({1: 2}, ".a"),
        ([1, float("-inf")], ".a[1]"),
        ({"b": float("nan")}, ".a.b"),
    ],
)
def test_value_that_json_cannot_encode_is_refused(value: Any, field: str) -> None:
    assert refused({"urn:example:a": {"a": value}}) == f"events.urn:example:a{field}"


def test_sizes_at_the_limit_are_accepted_and_beyond_are_refused() -> None:
    checked_event({f"urn:example:e{n}": {} for n in range(token_claims.EVENTS_MAX)}, "t", 1, SUB)
    assert refused({f"urn:example:e{n}": {} for n in range(token_claims.EVENTS_MAX + 1)}) == "events"
    checked_event({"urn:example:a": nested(token_claims.DEPTH_MAX - 2)}, "t", 1, SUB)
    assert refused({"urn:example:a": nested(token_claims.DEPTH_MAX - 1)}).startswith("events.urn:example:a.a")
    assert refused({"urn:example:a": {"text": "x" * token_claims.EVENTS_BYTES_MAX}}) == "events"
    checked_event(UPDATED, "t" * 128, token_claims.SECONDS_MAX, SUB)
    assert refused(txn="t" * 129) == "txn"
    assert refused(txn="") == "txn"
    assert refused(txn="a\nb") == "txn"


@pytest.mark.parametrize("toe", [-1, token_claims.SECONDS_MAX + 1, 1.5, True, "1", None])
def test_toe_that_is_not_whole_seconds_is_refused(toe: Any) -> None:
    assert refused(toe=toe) == "toe"


@pytest.mark.parametrize("sub", ["", "x", "/path", "https://", "https://a b", "https://a/" + "x" * 2048])
def test_sub_that_is_not_a_uri_is_refused(sub: str) -> None:
    assert refused(sub=sub) == "sub"


def test_missing_subject_is_refused() -> None:
    assert refused(sub=None) == "sub"


@pytest.mark.parametrize(
    "sub_id",
    [
        {"format": "email", "email": "ada@example.com"},
        {"format": "iss_sub", "iss": "https://i.example", "sub": "1"},
        {"format": "complex", "user": {"format": "opaque", "id": "1"}, "device": {"format": "opaque", "id": "2"}},
        {"format": "aliases", "identifiers": [{"format": "opaque", "id": "1"}]},
        {"format": "our-own", "anything": [1]},
    ],
)
def test_valid_subject_identifier_is_accepted(sub_id: dict[str, Any]) -> None:
    assert checked_event({SESSION_REVOKED: {}}, "t", 1, None, sub_id).subject == sub_id


@pytest.mark.parametrize(
    ("sub_id", "field"),
    [
        ({}, "sub_id.format"),
        ("x", "sub_id"),
        ({"format": ""}, "sub_id.format"),
        ({"format": "email"}, "sub_id.email"),
        ({"format": "iss_sub", "iss": "https://i.example"}, "sub_id.sub"),
        ({"format": "opaque", "id": 7}, "sub_id.id"),
        ({"format": "complex", "user": {"format": "opaque"}}, "sub_id.user.id"),
        ({"format": "aliases", "identifiers": []}, "sub_id.identifiers"),
        ({"format": "aliases", "identifiers": [{"format": "aliases", "identifiers": [{"format": "x"}]}]}, "format"),
    ],
)
def test_invalid_subject_identifier_is_refused(sub_id: Any, field: str) -> None:
    assert refused({SESSION_REVOKED: {}}, sub_id=sub_id).endswith(field)
