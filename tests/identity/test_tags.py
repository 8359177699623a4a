import pytest

from restante.core.errors import BadInput, Conflict
from restante.database.database import Database
from restante.identity import tags
from restante.identity.tags import TAGS_MAX


def test_tags_are_added_and_removed_once(database: Database) -> None:
    assert database.write_now(tags.add, "device", 7, "pilot")
    assert not database.write_now(tags.add, "device", 7, "pilot")
    assert database.write_now(tags.add, "device", 7, "site=berlin")
    assert database.write_now(tags.add, "miner", 7, "other-kind")
    assert database.read_now(tags.tags_of, "device", 7) == ["pilot", "site=berlin"]
    assert database.read_now(tags.tags_of_all, "device", [7, 8]) == {7: ["pilot", "site=berlin"], 8: []}
    assert database.read_now(tags.tags_of_all, "device", []) == {}
    assert database.write_now(tags.remove, "device", 7, "pilot")
    assert not database.write_now(tags.remove, "device", 7, "pilot")
    assert database.read_now(tags.tags_of, "device", 7) == ["site=berlin"]
    assert database.read_now(tags.tags_of, "miner", 7) == ["other-kind"]


def test_number_of_tags_is_bounded(database: Database) -> None:
    for number in range(TAGS_MAX):
        database.write_now(tags.add, "device", 7, f"t{number}")
    with pytest.raises(Conflict, match=f"a device has at most {TAGS_MAX} tags"):
        database.write_now(tags.add, "device", 7, "more")
    assert not database.write_now(tags.add, "device", 7, "t0")
    assert database.write_now(tags.add, "device", 8, "more")


@pytest.mark.parametrize("tag", ["", "A", "ä", "a b", "-a", "a/b", "a,b", "a\n", "a" * 64, "a\x00"])
def test_tag_with_other_characters_is_refused(database: Database, tag: str) -> None:
    with pytest.raises(BadInput, match="tag: expected 1 to 63 characters"):
        database.write_now(tags.add, "device", 7, tag)
    assert database.read_now(tags.tags_of, "device", 7) == []
