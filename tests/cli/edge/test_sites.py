import pytest

from tests.cli.conftest import Restante


def test_sites_are_added_and_listed(restante: Restante) -> None:
    assert restante.ok("site", "list") == "No sites.\n"
    site = restante.json("site", "add", "North")
    assert (site["id"], site["name"]) == (1, "North")
    assert restante.ok("site", "add", "South") == "Site 2 is South; its default zone is 2.\n"
    assert [each["name"] for each in restante.json("site", "list")["items"]] == ["North", "South"]
    assert restante.json("site", "list", "--limit", "1")["next"] == 1
    shown = restante.ok("site", "list", "--limit", "1")
    assert "North" in shown
    assert "--after 1" in shown
    assert "South" in restante.ok("site", "list", "--after", "1")


def test_zones_are_added_and_listed(restante: Restante) -> None:
    restante.ok("site", "add", "North")
    assert restante.ok("zone", "add", "1", "east") == "Zone 2 of site 1 is east.\n"
    assert restante.json("zone", "add", "1", "west")["site_id"] == 1
    assert [each["name"] for each in restante.json("zone", "list")["items"]] == ["default", "east", "west"]
    assert restante.ok("zone", "list", "--site", "9") == "No zones.\n"
    assert "yes" in restante.ok("zone", "list", "--site", "1", "--limit", "1")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("site", "add", "North"), "a site named North already exists"),
        (("site", "add", ""), "name: expected 1 to 100 printable characters without leading or trailing spaces"),
        (("zone", "add", "1", "default"), "the site already has a zone named default"),
        (("zone", "add", "9", "east"), "site_id: expected the id of a site"),
    ],
)
def test_invalid_arguments_are_refused(restante: Restante, args: tuple[str, ...], message: str) -> None:
    restante.ok("site", "add", "North")
    assert restante.error_line(*args) == message
