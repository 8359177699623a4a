"""What is kept with a commit and found by looking; on PostgreSQL also in whatever order transactions end."""

from collections.abc import Iterator

import pytest

from restante.database import notices
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.migrate import migrate
from restante.database.notices import KEEP_MS, TOLD_WITHIN_MS, Notice
from tests.conftest import ManualClock


@pytest.fixture
def board(engine: Engine) -> Iterator[Database]:
    migrate(engine)
    database = Database(engine)
    yield database
    database.close()


def found(board: Database, horizon: int | None, node: str = "me") -> list[str]:
    return [notice.message for notice in board.read_now(notices.look, node, horizon).found]


def test_what_others_have_kept_is_found_from_the_horizon_on(board: Database, clock: ManualClock) -> None:
    board.write_now(notices.keep, "other", "before")
    horizon = board.read_now(notices.look, "me", None).horizon
    kept = board.write_now(notices.keep, "other", "after")
    board.write_now(notices.keep, "me", "my own")
    clock.advance(TOLD_WITHIN_MS / 1000)
    look = board.read_now(notices.look, "me", horizon)
    assert look.found == [Notice(kept.commit_id, "other", "after")]
    assert look.now_ms == clock.now_ms
    assert found(board, look.horizon) == []


def test_what_is_about_to_be_told_is_left_for_the_next_look(board: Database, clock: ManualClock) -> None:
    horizon = board.read_now(notices.look, "me", None).horizon
    board.write_now(notices.keep, "other", "new")
    assert found(board, horizon) == []
    clock.advance(TOLD_WITHIN_MS / 1000)
    assert found(board, horizon) == ["new"]


def test_one_can_be_read_by_its_number_while_it_is_kept(board: Database, clock: ManualClock) -> None:
    kept = board.write_now(notices.keep, "other", "long")
    assert board.read_now(notices.message_of, kept.commit_id) == "long"
    clock.advance(KEEP_MS / 1000)
    assert board.write_now(notices.forget_old) == 0
    clock.advance(0.001)
    assert board.write_now(notices.forget_old) == 1
    assert board.read_now(notices.message_of, kept.commit_id) is None
