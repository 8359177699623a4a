"""Check the page for operators of event polling: its examples and its limits."""

from pathlib import Path

import pytest

from restante.events.publishing import token_claims
from restante.events.publishing.listing import STATUSES
from restante.events.signing.routes import JWKS_MAX_AGE_SECONDS
from tests.documented import DOCS, README, check_examples, examples_of

PAGE = DOCS / "event-operations.md"


@pytest.mark.slow
def test_examples_produce_the_documented_output(tmp_path: Path) -> None:
    check_examples(tmp_path, PAGE, [examples_of(README)[0]])


def test_states_types_and_limits_are_documented() -> None:
    documented = PAGE.read_text(encoding="utf-8")
    for word in (
        *STATUSES,
        token_claims.RESOURCE_UPDATE,
        token_claims.CONSENT_REVOKED,
        token_claims.LINKED_ACCOUNT_UPDATE,
    ):
        assert f"`{word}`" in documented
    assert f"At most {token_claims.EVENTS_MAX} events" in documented
    assert f"{token_claims.EVENTS_BYTES_MAX // 1024} KiB" in documented
    assert f"{token_claims.DEPTH_MAX} levels" in documented
    assert f"at most {token_claims.TXN_CHARACTERS_MAX} characters" in documented
    assert JWKS_MAX_AGE_SECONDS == 5 * 60
