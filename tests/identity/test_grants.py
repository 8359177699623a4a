import pytest

from restante.core.errors import BadInput
from restante.identity.grants import (
    ALL_IDS,
    GRANTS_MAX,
    AllowedIds,
    Area,
    Grants,
    Role,
    checked_grants,
    parse_grant,
    parse_scope,
    stored_grants,
)


def grants(*texts: str) -> Grants:
    return checked_grants(parse_grant(text) for text in texts)


@pytest.mark.parametrize(
    "text",
    ["all", "updates", "updates:7", "commands", "commands:999999999999999999", "events", "events:my-client.1~a_b"],
)
def test_scope_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_scope(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "everything", "all:1", "All", "updates:", "updates:x", "updates:0", "updates:07", "updates:-1", "updates:٧",
        "commands:1000000000000000000", "commands:1:2", "events:", "events:a b", "events:-a", "events:" + "a" * 129,
        "people", " all", "all ", "all\n",
    ],
)  # fmt: skip
def test_other_scopes_are_refused(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_scope(text, "grants")
    assert refused.value.field == "grants"
    assert "commands:<site id>" in refused.value.expected


def test_grant_without_scope_counts_everywhere() -> None:
    assert grants("admin") == grants("admin@all") == Grants.everywhere(Role.admin)
    with pytest.raises(BadInput):
        parse_grant("root@all")


def test_number_of_grants_is_bounded() -> None:
    most = [f"viewer@commands:{site}" for site in range(1, GRANTS_MAX + 1)]
    assert len(grants(*most).items) == GRANTS_MAX
    for wrong in ([], [*most, "viewer@events"]):
        with pytest.raises(BadInput):
            grants(*wrong)


def test_included_grants_are_left_out() -> None:
    given = ("viewer@commands:3", "operator@commands", "viewer@commands:3", "approver@commands:4", "viewer@events")
    assert set(grants(*given).as_texts()) == {"operator@commands", "approver@commands:4", "viewer@events"}


@pytest.mark.parametrize(
    ("texts", "area", "role", "allowed"),
    [
        (["operator@all"], Area.commands, Role.operator, ALL_IDS),
        (["operator@all"], None, Role.operator, ALL_IDS),
        (["operator@all"], Area.commands, Role.approver, None),
        (["operator@commands"], Area.commands, Role.viewer, ALL_IDS),
        (["operator@commands"], Area.events, Role.viewer, None),
        (["admin@commands"], None, Role.viewer, None),
        (["operator@commands:3", "viewer@commands:4"], Area.commands, Role.viewer, AllowedIds(frozenset({3, 4}))),
        (["operator@commands:3", "viewer@commands:4"], Area.commands, Role.operator, AllowedIds(frozenset({3}))),
        (["operator@commands:3", "viewer@commands:4"], Area.commands, Role.admin, None),
        (["viewer@all", "operator@events:shop"], Area.events, Role.operator, AllowedIds(frozenset({"shop"}))),
        (["viewer@all", "operator@events:shop"], Area.events, Role.viewer, ALL_IDS),
    ],
)
def test_role_and_scope_decide_what_is_allowed(
    texts: list[str], area: Area | None, role: Role, allowed: AllowedIds | None
) -> None:
    assert grants(*texts).allowed(area, role) == allowed


def test_allowed_ids_are_what_queries_filter_by() -> None:
    some = AllowedIds(frozenset({3, 11}))
    assert (3 in some, 4 in some, None in some) == (True, False, False)
    assert some.as_json() == "[11,3]"
    assert (some.only, AllowedIds(frozenset({3})).only, ALL_IDS.only) == (None, 3, None)
    assert (4 in ALL_IDS, ALL_IDS.as_json()) == (True, None)


@pytest.mark.parametrize(
    ("own", "other", "covers", "administers"),
    [
        (["admin@all"], ["operator@events:shop", "viewer@all"], True, True),
        (["operator@all"], ["operator@events:shop"], True, False),
        (["operator@all"], ["approver@events:shop"], False, False),
        (["admin@commands"], ["admin@commands:3"], True, True),
        (["admin@commands:3"], ["viewer@commands"], False, False),
        (["admin@commands:3"], ["viewer@commands:4"], False, False),
        (["admin@commands:3", "admin@events"], ["viewer@commands:3", "admin@events:shop"], True, True),
        (["admin@commands:3", "viewer@all"], ["viewer@events"], True, False),
    ],
)
def test_nobody_gives_what_they_do_not_have(own: list[str], other: list[str], covers: bool, administers: bool) -> None:
    assert grants(*own).cover(grants(*other)) == covers
    assert grants(*own).administer(grants(*other)) == administers


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (["admin@all"], ["operator@updates:7"], {"operator@updates:7"}),
        (["viewer@updates"], ["operator@updates:7", "admin@events"], {"viewer@updates:7"}),
        (["admin@commands"], ["admin@events"], None),
        (["operator@updates:7"], ["operator@updates:8"], None),
    ],
)
def test_common_grants(one: list[str], other: list[str], both: set[str] | None) -> None:
    for left, right in ((one, other), (other, one)):
        common = grants(*left).within(grants(*right))
        assert (common and set(common.as_texts())) == both


@pytest.mark.parametrize("texts", [["viewer@all"], ["operator@commands:3", "viewer@all"], ["admin@events:shop"]])
def test_grants_are_stored_beside_the_highest_role(texts: list[str]) -> None:
    given = grants(*texts)
    assert stored_grants(given.role.name, given.stored()) == given


def test_role_alone_is_stored_without_grants() -> None:
    assert grants("admin@all").stored() is None
    assert stored_grants("approver", None) == Grants.everywhere(Role.approver)


def test_administrator_of_everything_needs_both() -> None:
    assert grants("admin@all").has_all
    assert not grants("admin@commands", "operator@all").has_all
