from restante.core.suggestions import closest, misspelt, one_of

KNOWN = ("temp_max", "hashrate", "power")


def test_misspelt_name_is_found() -> None:
    assert [closest(name, KNOWN) for name in ("tmp_max", "hashrte", "pwer", "dance")] == [*KNOWN, None]


def test_longer_or_different_name_is_a_name_of_its_own() -> None:
    assert [misspelt(name, KNOWN) for name in ("temp_max", "hashrate_5s", "power1", "temp_min", "x")] == [None] * 5
    assert misspelt("temp_mx", KNOWN) == "temp_max"


def test_expected_names_are_listed_unless_one_is_meant() -> None:
    assert one_of("tmp_max", KNOWN) == "a known name; did you mean temp_max?"
    assert one_of("dance", KNOWN) == "one of temp_max, hashrate, power"
