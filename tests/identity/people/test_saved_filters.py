"""Saved filters: each person has their own, under names that differ."""

import pytest

from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.database import Database
from restante.identity.people import saved_filters, users
from restante.identity.people.saved_filters import FILTERS_MAX, QUERY_CHARACTERS_MAX
from tests.identity.people_and_devices import add_user


def save(
    database: Database, user_id: int, name: str, query: str = "status=failed", list_name: str = "commands"
) -> None:
    database.write_now(saved_filters.save, user_id, list_name, name, query)


def names(database: Database, user_id: int, list_name: str = "commands") -> list[str]:
    return [each.name for each in database.read_now(saved_filters.filters_of, user_id, list_name)]


def test_filters_belong_to_one_person_and_one_list(database: Database) -> None:
    one, other = add_user(database), add_user(database, "bob@example.com")
    save(database, one, "failed")
    save(database, one, "approvals", "status=pending_approval&site=7")
    save(database, one, "failed", list_name="events")
    save(database, other, "failed", "status=failed&site=1")
    assert names(database, one) == ["approvals", "failed"]
    assert names(database, one, "events") == ["failed"]
    [of_other] = database.read_now(saved_filters.filters_of, other, "commands")
    assert of_other.query == "status=failed&site=1"


def test_second_filter_of_a_name_is_refused(database: Database) -> None:
    user_id = add_user(database)
    save(database, user_id, "failed")
    with pytest.raises(Conflict, match="'failed'"):
        save(database, user_id, "failed", "status=expired")


@pytest.mark.parametrize("name", ["", "x" * 64, "two\nlines", "nul\0"])
def test_wrong_name_is_refused(database: Database, name: str) -> None:
    with pytest.raises(BadInput, match="name: expected 1 to 63"):
        save(database, add_user(database), name)


@pytest.mark.parametrize("query", ["", "a=" + "x" * QUERY_CHARACTERS_MAX])
def test_empty_and_very_long_filters_are_refused(database: Database, query: str) -> None:
    with pytest.raises(BadInput, match="filter: expected at least one field"):
        save(database, add_user(database), "mine", query)


def test_number_of_filters_is_bounded(database: Database) -> None:
    user_id = add_user(database)
    for number in range(FILTERS_MAX):
        save(database, user_id, f"filter {number}")
    with pytest.raises(Conflict, match=f"{FILTERS_MAX} saved filters"):
        save(database, user_id, "one more")
    save(database, user_id, "another list", list_name="events")


def test_person_deletes_their_own_filters_only(database: Database) -> None:
    one, other = add_user(database), add_user(database, "bob@example.com")
    save(database, one, "failed")
    [saved] = database.read_now(saved_filters.filters_of, one, "commands")
    with pytest.raises(NotFound):
        database.write_now(saved_filters.delete, other, saved.id)
    assert database.write_now(saved_filters.delete, one, saved.id) == "commands"
    assert names(database, one) == []


def test_removed_person_has_no_filters(database: Database) -> None:
    user_id = add_user(database)
    save(database, user_id, "failed")
    database.write_now(users.remove, user_id, "tests")
    assert names(database, user_id) == []
