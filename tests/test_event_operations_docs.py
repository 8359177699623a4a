"""What is written for operators of event polling holds: examples answer what the page says, limits are as named."""

from pathlib import Path

import pytest

from restante.events import claims
from restante.events.listing import STATUSES
from restante.events.routes_keys import JWKS_MAX_AGE_SECONDS
from tests.documented import DOCS, README, check_answers, examples_of

PAGE = DOCS / "event-operations.md"


@pytest.mark.slow
def test_the_examples_answer_what_the_page_says(tmp_path: Path) -> None:
    check_answers(tmp_path, PAGE, [examples_of(README)[0]])


def test_states_types_and_limits_are_named() -> None:
    said = PAGE.read_text(encoding="utf-8")
    for word in (*STATUSES, claims.RESOURCE_UPDATE, claims.CONSENT_REVOKED, claims.LINKED_ACCOUNT_UPDATE):
        assert f"`{word}`" in said
    assert f"At most {claims.EVENTS_MAX} events" in said
    assert f"{claims.EVENTS_BYTES_MAX // 1024} KiB" in said
    assert f"{claims.DEPTH_MAX} levels" in said
    assert f"at most {claims.TXN_CHARACTERS_MAX} characters" in said
    assert JWKS_MAX_AGE_SECONDS == 5 * 60
