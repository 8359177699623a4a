from tests.cli.conftest import Restante


def test_miners_are_added_and_listed(restante: Restante) -> None:
    restante.ok("site", "add", "North")
    restante.ok("zone", "add", "1", "east")
    assert restante.ok("miner", "list") == "No miners.\n"
    assert restante.ok("miner", "add", "1", "S19") == "Miner 1 of site 1 is S19, in zone 1.\n"
    miner = restante.json("miner", "add", "1", "S21", "--zone", "2", "--id", "1001")
    assert (miner["id"], miner["zone_id"]) == (1001, 2)
    assert [each["id"] for each in restante.json("miner", "list", "--site", "1")["items"]] == [1, 1001]
    assert [each["id"] for each in restante.json("miner", "list", "--zone", "2")["items"]] == [1001]
    assert "--after 1" in restante.ok("miner", "list", "--limit", "1")
    assert restante.error_line("miner", "add", "1", "S19", "--id", "1001") == "a miner with the id 1001 already exists"
    assert restante("miner", "add", "0", "S19").exit_code == 2
