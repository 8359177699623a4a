"""Holds an answer of edge commands against what a case expects of it."""

import hashlib
import hmac
import json
from typing import Any, Protocol

from tests.conformance.cases import MISSING, body_of, check_headers, check_value, found_at
from tests.conformance.command_cases import Expected
from tests.server.serving import WireAnswer

# In the specification's order of its fields.
ELEVEN = (
    *("command_id", "site_id", "zone_id", "miner_id", "command_type", "params", "priority", "expires_at"),
    *("dedupe_key", "signed_at", "nonce"),
)


class Site(Protocol):
    def filled(self, value: Any) -> Any:
        """The value with what its names stand for."""

    def secret(self) -> str: ...


def check_answer(site: Site, expected: Expected, answer: WireAnswer) -> None:
    assert answer.status == expected.status, answer.body
    check_headers(answer, site.filled(expected.headers), expected.absent)
    if expected.text is not None:
        check_value(site.filled(expected.text), answer.body.decode(), "the body")
    if is_json(answer):
        check_body(site, expected, body_of(answer))


def is_json(answer: WireAnswer) -> bool:
    return answer.header(b"content-type") == b"application/json" and answer.body != b""


def check_body(site: Site, expected: Expected, body: Any) -> None:
    if expected.json is not None:
        assert body == site.filled(expected.json)
    for where, value in expected.has.items():
        check_value(site.filled(value), found_at(body, where), where)
    assert [where for where in expected.null if found_at(body, where) is not None] == []
    assert [where for where in expected.lacks if found_at(body, where) != MISSING] == []
    if expected.commands is not None:
        assert [command["command_id"] for command in body["commands"]] == site.filled(expected.commands)
    if expected.error is not None:
        assert body["error"] == expected.error, body
        assert isinstance(body["message"], str)
        assert body["message"]
    if expected.field is not None:
        assert body["field"] == expected.field, body
    if expected.signed:
        for command in body["commands"]:
            eleven = {field: command[field] for field in ELEVEN}
            assert command["signature"] == signature_by_formula(eleven, site.secret())


def signature_by_formula(fields: dict[str, Any], secret: str) -> str:
    """The specification's own lines."""
    canonical_json = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hmac.new(secret.encode("utf-8"), canonical_json.encode("utf-8"), hashlib.sha256).hexdigest()
