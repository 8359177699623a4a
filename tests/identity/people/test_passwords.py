import time

import pytest
from argon2 import extract_parameters

from restante.core.errors import BadInput
from restante.identity.people import passwords
from tests.identity.people_and_devices import PASSWORD, password_hash


def test_only_the_right_password_is_correct() -> None:
    assert passwords.is_correct(password_hash(), PASSWORD)
    assert not passwords.is_correct(password_hash(), PASSWORD + "x")


def test_hashes_are_argon2id_and_salted() -> None:
    assert password_hash().startswith("$argon2id$")
    assert PASSWORD not in password_hash()
    assert passwords.hash_password(PASSWORD) != password_hash()


def test_dummy_hash_costs_as_much_and_matches_nothing() -> None:
    assert extract_parameters(passwords.DUMMY_HASH) == extract_parameters(password_hash())
    assert not passwords.is_correct(None, PASSWORD)
    started = time.process_time()
    passwords.is_correct(None, "x")
    assert time.process_time() - started > 0.005


def test_damaged_hash_matches_nothing() -> None:
    assert not passwords.is_correct("not a hash", PASSWORD)


@pytest.mark.parametrize("password", ["", "ninechars", "x" * 1025])
def test_too_short_or_too_long_password_is_refused(password: str) -> None:
    with pytest.raises(BadInput) as refused:
        passwords.check_new(password)
    assert refused.value.field == "password"


def test_password_of_ten_characters_is_accepted() -> None:
    passwords.check_new("x" * 10)
