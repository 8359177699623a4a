from tests.cli.conftest import Restante


def test_site_zone_miner_and_collector_are_made_listed_and_revoked(remote: Restante) -> None:
    site = remote.json("site", "create", "north")
    zone = remote.json("zone", "create", "north", "roof")
    miner = remote.json("miner", "create", "north", "m1", "--zone", str(zone["id"]), "--id", "1001")
    assert (miner["id"], miner["zone_id"]) == (1001, zone["id"])
    made = remote.ok("collector", "create", str(site["id"]), "c1")
    assert "token        ed_" in made
    assert [each["name"] for each in remote.items("site", "list")] == ["north"]
    assert remote.json("site", "show", "north")["id"] == site["id"]
    assert len(remote.items("zone", "list", "--site", "north")) == 2
    assert [each["id"] for each in remote.items("miner", "list", "--zone", str(zone["id"]))] == [1001]
    (collector,) = remote.items("collector", "list", "--site", "north")
    number = str(collector["id"])
    rotated = remote.json("collector", "rotate", number, "--what", "hmac_secret", "--overlap", "1h", "--yes")
    assert (rotated["token"], len(rotated["hmac_secret"])) == (None, 64)
    assert "Would do: This revokes collector" in remote.ok("collector", "revoke", number, "--dry-run")
    assert "add --yes" in remote.error_line("collector", "revoke", number)
    assert remote.json("collector", "show", number)["status"] == "active"
    assert remote.json("collector", "revoke", number, "--yes")["status"] == "revoked"


def test_times_in_json_are_rfc3339_with_milliseconds(remote: Restante) -> None:
    made = remote.json("site", "create", "times")["created_at"]
    assert (len(made), made[-5], made[-1]) == (24, ".", "Z")


def test_name_of_several_or_no_sites_is_refused(remote: Restante) -> None:
    assert remote.error_line("zone", "list", "--site", "nowhere") == "there is no site 'nowhere'"


def test_refusal_names_the_flag(remote: Restante) -> None:
    site = str(remote.json("site", "create", "flags")["id"])
    assert remote.error_line("miner", "create", site, "m", "--zone", "999").startswith("--zone: expected ")
    assert remote.error_line("site", "create", "").startswith("NAME: expected ")


def test_lists_are_read_page_by_page(remote: Restante) -> None:
    site = str(remote.json("site", "create", "pages")["id"])
    for number in range(3):
        remote.ok("miner", "create", site, f"p{number}")
    page = remote.json("miner", "list", "--site", "pages", "--limit", "2")
    assert len(page["items"]) == 2
    rest = remote.json("miner", "list", "--site", "pages", "--after", str(page["next"]))
    assert [each["name"] for each in rest["items"]] == ["p2"]
    piped = remote("miner", "list", "--site", "pages", "--limit", "1")
    assert piped.stdout.splitlines()[0].split("\t") == ["id", "site", "zone", "name", "status", "tags", "created"]
    assert piped.stderr == f"There are more: --after {page['items'][0]['id']}\n"
